//! Permissions in the syntax of `chmod`: octal, or symbolic.

use std::str::FromStr;

/// Permissions with setuid, setgid and sticky.
const ALL: u32 = 0o7777;

/// A change of permissions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ModeChange {
    /// Sets these permissions.
    Octal(u32),
    /// Applies these clauses, one after the other.
    Symbolic(Vec<Clause>),
}

/// `CLASSES OPERATION PERMISSIONS`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Clause {
    /// The bits that may change: of the user, the group, the others.
    classes: u32,
    operation: char,
    what: What,
}

/// The right side of a clause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    /// Bits, for all three classes; `X` sets execution if any class has it.
    Bits { bits: u32, any_execution: bool },
    /// The permissions of the user, the group or the others, by how far to shift.
    Copy(u32),
}

impl ModeChange {
    /// Applies the change to `perm`. For a directory, `X` is always `x`.
    pub(crate) fn apply(&self, perm: u32, is_dir: bool) -> u32 {
        match self {
            Self::Octal(perm) => *perm,
            Self::Symbolic(clauses) => {
                clauses.iter().fold(perm, |perm, clause| clause.apply(perm, is_dir))
            }
        }
    }

    /// Returns the permissions of a new file.
    pub(crate) fn of_new(&self, is_dir: bool) -> u32 {
        self.apply(if is_dir { 0o777 } else { 0o666 }, is_dir)
    }
}

impl Clause {
    fn apply(&self, perm: u32, is_dir: bool) -> u32 {
        let bits = match self.what {
            What::Bits { bits, any_execution } => {
                let execution = any_execution && (is_dir || perm & 0o111 != 0);
                bits | if execution { 0o111 } else { 0 }
            }
            What::Copy(shift) => (perm >> shift & 7) * 0o111,
        } & self.classes;
        match self.operation {
            '+' => perm | bits,
            '-' => perm & !bits,
            // A directory keeps setuid and setgid unless they are named.
            _ if is_dir => perm & !(self.classes & 0o1777) | bits,
            _ => perm & !self.classes | bits,
        }
    }
}

impl FromStr for ModeChange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(perm) = u32::from_str_radix(text, 8) {
            return if perm <= ALL { Ok(Self::Octal(perm)) } else { Err("above 7777".into()) };
        }
        let clauses: Option<Vec<Vec<Clause>>> = text.split(',').map(clauses).collect();
        clauses
            .map(|clauses| Self::Symbolic(clauses.concat()))
            .ok_or_else(|| "neither octal (0644) nor symbolic (u+x,go-w)".into())
    }
}

/// Parses `u+x`, `go=r-w`: one set of classes, one or more operations.
fn clauses(text: &str) -> Option<Vec<Clause>> {
    let begin = text.find(['+', '-', '='])?;
    let (classes, mut rest) = text.split_at(begin);
    let mut mask = 0;
    for letter in classes.chars() {
        mask |= match letter {
            'u' => 0o4700,
            'g' => 0o2070,
            'o' => 0o1007,
            'a' => ALL,
            _ => return None,
        };
    }
    if classes.is_empty() {
        mask = ALL;
    }
    let mut clauses = Vec::new();
    while let Some(operation) = rest.chars().next() {
        let after = &rest[1..];
        let end = after.find(['+', '-', '=']).unwrap_or(after.len());
        clauses.push(Clause { classes: mask, operation, what: what(&after[..end])? });
        rest = &after[end..];
    }
    Some(clauses)
}

fn what(text: &str) -> Option<What> {
    match text {
        "u" => return Some(What::Copy(6)),
        "g" => return Some(What::Copy(3)),
        "o" => return Some(What::Copy(0)),
        _ => {}
    }
    let (mut bits, mut any_execution) = (0, false);
    for letter in text.chars() {
        match letter {
            'r' => bits |= 0o444,
            'w' => bits |= 0o222,
            'x' => bits |= 0o111,
            's' => bits |= 0o6000,
            't' => bits |= 0o1000,
            'X' => any_execution = true,
            _ => return None,
        }
    }
    Some(What::Bits { bits, any_execution })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_change_as_chmod_changes_them() {
        for (mode, before, after) in [
            ("0644", 0o4755, 0o644),
            ("u+x,go-w", 0o666, 0o744),
            ("a+X", 0o600, 0o600),
            ("a+X", 0o700, 0o711),
            ("u+s", 0o755, 0o4755),
            ("+t", 0o755, 0o1755),
            ("g=u", 0o741, 0o771),
            ("o=", 0o777, 0o770),
            ("u=rw", 0o4755, 0o655),
            ("u=rw,g=r,o=", 0o777, 0o640),
            ("ug+r-w", 0o222, 0o442),
        ] {
            let change: ModeChange = mode.parse().unwrap();
            assert_eq!(change.apply(before, false), after, "{mode}");
        }
        assert_eq!("a+X".parse::<ModeChange>().unwrap().apply(0o600, true), 0o711);
        for bad in ["", "8", "10000", "u", "u+y", "z+x", "u+x,"] {
            assert!(bad.parse::<ModeChange>().is_err(), "{bad}");
        }
    }
}
