//! How each command uses its target. A table of commands is an enum of the grammar and this list in
//! one, so a command without an entry does not compile.

/// How a command uses its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Reads it, or has none.
    Reads,
    /// Writes to it.
    Writes,
    /// Writes to it with this option or argument, else reads it.
    WritesWith(&'static str),
    /// Each subcommand has its own.
    Subcommands(&'static [(&'static str, Access)]),
}

/// Defines an enum of commands, and in `ACCESS` the name of each variant with its [`Access`].
macro_rules! commands {
    (
        $(#[$meta:meta])*
        $visibility:vis enum $name:ident {
            $($(#[$command:meta])* $variant:ident $arguments:tt => $access:expr,)+
        }
    ) => {
        $(#[$meta])*
        $visibility enum $name {
            $($(#[$command])* $variant $arguments,)+
        }

        impl $name {
            /// How each command uses its target, in the order of the help.
            $visibility const ACCESS: &'static [(&'static str, $crate::grammar::access::Access)] =
                &[$((stringify!($variant), $access)),+];
        }
    };
}

pub(crate) use commands;

/// Returns the commands of `table` that write, each after `prefix` and with the option that makes
/// it write.
pub(crate) fn writers(table: &[(&str, Access)], prefix: &str) -> Vec<String> {
    let mut names = vec![];
    for (variant, access) in table {
        let name = format!("{prefix}{}", variant.to_lowercase());
        match access {
            Access::Reads => {}
            Access::Writes => names.push(name),
            Access::WritesWith(argument) => names.push(format!("{name} {argument}")),
            Access::Subcommands(table) => names.extend(writers(table, &format!("{name} "))),
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::grammar::Cli;

    /// Compares `table` with the subcommands of `command`, and theirs.
    fn compare(command: &clap::Command, table: &[(&str, Access)]) {
        let names: Vec<_> = command.get_subcommands().map(clap::Command::get_name).collect();
        let plain = |name: &str| name.replace('_', "").to_lowercase();
        assert_eq!(
            names.iter().map(|name| plain(name)).collect::<Vec<_>>(),
            table.iter().map(|(variant, _)| plain(variant)).collect::<Vec<_>>(),
        );
        for (below, (_, access)) in command.get_subcommands().zip(table) {
            match access {
                Access::Subcommands(table) => compare(below, table),
                // The words after the command in the list are its options or arguments.
                Access::WritesWith(argument) => {
                    let mut words = argument.split(' ');
                    let known = |word: &str| {
                        below.get_arguments().any(|known| match word.strip_prefix("--") {
                            Some(long) => known.get_long() == Some(long),
                            None => known.get_id().as_str() == word.to_lowercase(),
                        })
                    };
                    assert!(words.all(known), "{} has no {argument}", below.get_name());
                }
                Access::Reads | Access::Writes => {}
            }
        }
    }

    #[test]
    fn the_table_has_each_command_of_the_grammar() {
        compare(&Cli::command(), crate::grammar::Command::ACCESS);
    }

    #[test]
    fn the_list_names_what_writes_and_nothing_else() {
        let names = writers(crate::grammar::Command::ACCESS, "");
        for name in ["recover", "md scrub --repair", "xattr rm", "label LABEL"] {
            assert!(names.iter().any(|listed| listed == name), "{name} is missing in {names:?}");
        }
        for name in ["ls", "md guess", "xattr list", "inspect"] {
            assert!(!names.iter().any(|listed| listed.starts_with(name)), "{name} only reads");
        }
    }
}
