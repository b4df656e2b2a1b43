//! Words of flag bits, as on-disk structures store them: a type for each word.
//!
//! [`flag_word!`](crate::flag_word) declares a type by `bitflags`, and gives each flag the name
//! that `xfs_db` or `xfs_info` prints. A word keeps the bits that the format does not define, so
//! what is read can be written back unchanged; [`FlagWord::undefined`] returns them.

use bitflags::Flags;

/// A word of flag bits with their names.
pub trait FlagWord: Flags<Bits: Into<u64>> + Copy {
    /// Names of the defined flags, in order of declaration.
    const NAMES: &'static [&'static str];
    /// All defined flags.
    const DEFINED: Self;

    /// Returns the names of the flags that are set, in order of declaration.
    fn names(self) -> impl Iterator<Item = &'static str> {
        let flags = Self::FLAGS.iter().filter(|flag| flag.is_named()).zip(Self::NAMES);
        flags.filter(move |(flag, _)| self.contains(*flag.value())).map(|(_, name)| *name)
    }

    /// Returns the bits that the format does not define.
    fn undefined(self) -> Self {
        self.difference(Self::DEFINED)
    }

    /// Returns the names of the flags that are set, then undefined bits as one number:
    /// `finobt, 0x80000000`.
    fn list(self) -> String {
        let rest = self.undefined().bits().into();
        let rest = (rest != 0).then(|| format!("{rest:#x}"));
        let names = self.names().map(String::from).chain(rest);
        names.collect::<Vec<_>>().join(", ")
    }
}

/// Declares a word of flag bits: a `bitflags` type that is a [`FlagWord`].
#[macro_export]
macro_rules! flag_word {
    (
        $(#[$word_attr:meta])*
        $vis:vis struct $word:ident: $bits:ty {
            $($(#[$($doc:tt)*])* $id:ident = $mask:expr, $name:expr;)*
        }
    ) => {
        $(#[$word_attr])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        $vis struct $word($bits);

        $crate::bitflags::bitflags! {
            impl $word: $bits {
                $($(#[$($doc)*])* const $id = $mask;)*
                // Bits that the format does not define are kept.
                const _ = !0;
            }
        }

        impl $crate::flags::FlagWord for $word {
            const NAMES: &'static [&'static str] = &[$($name),*];
            const DEFINED: Self = Self::empty()$(.union(Self::$id))*;
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    flag_word! {
        /// A word with two flags.
        struct Word: u16 {
            /// Bit 2.
            LATER = 1 << 2, "later";
            /// Bit 0.
            FIRST = 1 << 0, "first";
        }
    }

    #[test]
    fn undefined_bits_are_kept_and_listed_as_a_number() {
        let word = Word::from_bits_retain(0x8105);
        assert_eq!((word - Word::FIRST).bits(), 0x8104);
        assert_eq!((word & !Word::FIRST).bits(), 0x8104, "the complement has them too");
        assert_eq!(word.undefined().bits(), 0x8100);
        assert_eq!(word.list(), "later, first, 0x8100");
        assert_eq!(Word::default().list(), "");
    }
}
