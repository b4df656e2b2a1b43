//! Names on standard output in the styles of coreutils' `ls --quoting-style`.

use std::fmt::Write as _;

use clap::ValueEnum;

/// The style of names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Style {
    /// As they are
    Literal,
    /// Quoted for a shell where a shell would read them otherwise
    Shell,
    /// Quoted for a shell always
    ShellAlways,
    /// As shell, with $'…' around what cannot be printed
    ShellEscape,
    /// As shell-escape, quoted always
    ShellEscapeAlways,
    /// As a string of C, in double quotes
    C,
    /// As c, without the quotes, and with blanks escaped
    Escape,
}

impl Style {
    /// Returns the style of the environment; unknown ones are ignored.
    pub(crate) fn of_environment() -> Option<Self> {
        Self::from_str(&std::env::var("QUOTING_STYLE").ok()?, false).ok()
    }

    /// Returns `name` in this style. On a terminal it has no character that moves the cursor.
    pub(crate) fn quote(self, name: &[u8], terminal: bool) -> Vec<u8> {
        let is_bare =
            matches!(self, Self::Literal | Self::Shell | Self::ShellEscape | Self::Escape);
        if is_bare && is_plain(name) {
            return name.to_vec();
        }
        let pieces: Vec<Piece> = pieces(name).collect();
        match self {
            Self::Literal => plain(&pieces, terminal),
            Self::Shell if !needs_shell_quotes(&pieces) => plain(&pieces, terminal),
            Self::Shell | Self::ShellAlways => in_shell_quotes(&pieces, false, terminal),
            Self::ShellEscape
                if !needs_shell_quotes(&pieces) && pieces.iter().copied().all(is_printable) =>
            {
                plain(&pieces, terminal)
            }
            Self::ShellEscape | Self::ShellEscapeAlways => in_shell_quotes(&pieces, true, terminal),
            Self::C => escaped(&pieces, "\"", "\""),
            Self::Escape => escaped(&pieces, "", " "),
        }
    }
}

/// Returns true for a name that no style changes, as most are.
fn is_plain(name: &[u8]) -> bool {
    let plain = |&b: &u8| b.is_ascii_alphanumeric() || b"-_./,:@%+".contains(&b);
    !name.is_empty() && name.iter().all(plain)
}

/// A character, or a byte that is not part of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Piece {
    Char(char),
    Byte(u8),
}

fn pieces(name: &[u8]) -> impl Iterator<Item = Piece> + '_ {
    name.utf8_chunks().flat_map(|chunk| {
        let chars = chunk.valid().chars().map(Piece::Char);
        chars.chain(chunk.invalid().iter().map(|&byte| Piece::Byte(byte)))
    })
}

fn is_printable(piece: Piece) -> bool {
    matches!(piece, Piece::Char(c) if !moves_cursor(c))
}

/// Returns true for characters that control a terminal: controls, and those that end lines or
/// change the direction of writing.
pub(crate) fn moves_cursor(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn push(text: &mut Vec<u8>, piece: Piece) {
    match piece {
        Piece::Char(c) => text.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
        Piece::Byte(byte) => text.push(byte),
    }
}

/// Writes the name as it is. A terminal gets `?` for what cannot be printed.
fn plain(pieces: &[Piece], terminal: bool) -> Vec<u8> {
    let mut text = Vec::with_capacity(pieces.len());
    for &piece in pieces {
        push(&mut text, if terminal && !is_printable(piece) { Piece::Char('?') } else { piece });
    }
    text
}

/// Returns the escape sequence of C for a piece that cannot be printed.
fn escape(piece: Piece) -> String {
    let mut text = String::new();
    let bytes = match piece {
        Piece::Char(c) => {
            let known = "\u{7}a\u{8}b\tt\nn\u{b}v\u{c}f\rr";
            let at = known.char_indices().step_by(2).find(|&(_, known)| known == c);
            if let Some(letter) = at.and_then(|(at, _)| known[at + 1..].chars().next()) {
                return format!("\\{letter}");
            }
            c.to_string().into_bytes()
        }
        Piece::Byte(byte) => vec![byte],
    };
    for byte in bytes {
        // Writing to a string cannot fail.
        let _ = write!(text, "\\{byte:03o}");
    }
    text
}

/// Writes the name as in C, in `quotes`; characters of `special` are escaped.
fn escaped(pieces: &[Piece], quotes: &str, special: &str) -> Vec<u8> {
    let mut text = quotes.as_bytes().to_vec();
    for &piece in pieces {
        match piece {
            Piece::Char(c) if c == '\\' || special.contains(c) => {
                text.push(b'\\');
                push(&mut text, piece);
            }
            piece if is_printable(piece) => push(&mut text, piece),
            piece => text.extend(escape(piece).into_bytes()),
        }
    }
    text.extend_from_slice(quotes.as_bytes());
    text
}

/// Returns true if a shell would interpret the bare name.
fn needs_shell_quotes(pieces: &[Piece]) -> bool {
    let special = " \t\n\r!\"$&'()*;<=>?[\\^`|";
    match pieces {
        [] | [Piece::Char('#' | '~'), ..] | [Piece::Char('{' | '}')] => true,
        pieces => pieces.iter().any(|p| matches!(p, Piece::Char(c) if special.contains(*c))),
    }
}

/// Returns true if double quotes are sufficient.
fn fits_double_quotes(pieces: &[Piece]) -> bool {
    pieces.iter().enumerate().all(|(at, piece)| match piece {
        Piece::Char('#' | '~') => at == 0,
        Piece::Char('{' | '}') => pieces.len() == 1,
        Piece::Char(c) if "!\"$&()*;<=>?[\\^`|".contains(*c) => false,
        piece => is_printable(*piece),
    })
}

/// Writes the name in quotes for a shell. With `escapes` unprintable pieces are in `$'…'`.
fn in_shell_quotes(pieces: &[Piece], escapes: bool, terminal: bool) -> Vec<u8> {
    if pieces.contains(&Piece::Char('\'')) && fits_double_quotes(pieces) {
        return [b"\"", &plain(pieces, terminal)[..], b"\""].concat();
    }
    let mut text = b"'".to_vec();
    let mut escaping = false;
    for &piece in pieces {
        if escapes && !is_printable(piece) {
            if !std::mem::replace(&mut escaping, true) {
                text.extend_from_slice(b"'$'");
            }
            text.extend(escape(piece).into_bytes());
            continue;
        }
        if piece == Piece::Char('\'') {
            text.extend_from_slice(b"'\\''");
            escaping = false;
            continue;
        }
        if std::mem::take(&mut escaping) {
            text.extend_from_slice(b"''");
        }
        text.extend(plain(&[piece], terminal));
    }
    text.push(b'\'');
    text
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::fs;
    use std::os::unix::ffi::OsStrExt;
    use std::process::Command;

    use super::*;

    /// Returns names with every ASCII character alone, before, after and between others, and some
    /// longer ones.
    fn names() -> Vec<Vec<u8>> {
        let mut names: Vec<Vec<u8>> = Vec::new();
        for byte in (1..=127u8).filter(|byte| *byte != b'/') {
            names.extend([vec![byte, b'a'], vec![b'a', byte], vec![b'a', byte, b'b']]);
            names.extend([vec![b'\'', byte], vec![b'\'', byte, b'\''], vec![1, byte, b'z']]);
            if byte != b'.' {
                names.push(vec![byte]);
            }
        }
        let more: [&[u8]; 6] = [
            b"plain",
            "\u{e4}\u{df} 'x'".as_bytes(),
            b"\xff\xfe",
            b"a\xffb",
            b"it's\nhere",
            b"a'\n'b",
        ];
        names.extend(more.iter().map(|name| name.to_vec()));
        names.sort();
        names.dedup();
        names
    }

    #[test]
    fn every_style_is_that_of_ls() {
        let dir = tempfile::tempdir().unwrap();
        let names = names();
        for style in Style::value_variants() {
            let word = style.to_possible_value().unwrap();
            for some in names.chunks(100) {
                fs::remove_dir_all(dir.path()).unwrap();
                fs::create_dir(dir.path()).unwrap();
                for name in some {
                    fs::write(dir.path().join(OsStr::from_bytes(name)), b"").unwrap();
                }
                // With -U, names are listed in the order of the arguments, each ended by a zero
                // byte.
                let mut ls = Command::new("ls");
                ls.current_dir(dir.path()).env("LC_ALL", "C.UTF-8");
                ls.arg(format!("--quoting-style={}", word.get_name())).args(["-U", "--zero"]);
                let style_again = format!("--quoting-style={}", word.get_name());
                let out =
                    ls.arg(style_again).arg("--").args(some.iter().map(|n| OsStr::from_bytes(n)));
                let out = out.output().unwrap();
                assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
                let theirs: Vec<&[u8]> = out.stdout.split(|&b| b == 0).collect();
                for (name, theirs) in some.iter().zip(theirs) {
                    let ours = style.quote(name, false);
                    assert_eq!(
                        String::from_utf8_lossy(&ours),
                        String::from_utf8_lossy(theirs),
                        "{name:?} in {}",
                        word.get_name()
                    );
                }
            }
        }
    }

    #[test]
    fn no_style_lets_a_name_move_the_cursor_of_a_terminal() {
        for style in Style::value_variants() {
            for name in names() {
                let shown = style.quote(&name, true);
                let text = String::from_utf8_lossy(&shown);
                assert!(!text.contains(moves_cursor), "{name:?} in {style:?}");
            }
        }
    }
}
