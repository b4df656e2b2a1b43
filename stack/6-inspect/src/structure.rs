//! Requests for a structure, in the syntax of the command line.

use std::str::FromStr;

use xfskit_format::agbtree::Tree;
use xfskit_units::{AgBlock, AgNumber, Daddr, FsBlock, Ino};

/// One structure of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Structure {
    /// `sb N`: superblock of a group.
    Sb(AgNumber),
    /// `agf N`.
    Agf(AgNumber),
    /// `agi N`.
    Agi(AgNumber),
    /// `agfl N`.
    Agfl(AgNumber),
    /// `bnobt N [AGBNO]` and the other trees: a block of a per-AG btree, by default the root.
    Tree(Tree, AgNumber, Option<AgBlock>),
    /// `inode N`.
    Inode(Ino),
    /// `dir N`: every block of a directory.
    Dir(Ino),
    /// `attr N`: every block of an attribute fork.
    Attr(Ino),
    /// `block N` or `block AG/AGBNO`: a filesystem block, decoded by its magic.
    Block(FsBlock),
    /// `block AG/AGBNO`, before the volume's geometry is known.
    AgBlock(AgNumber, AgBlock),
    /// `daddr N`: the structure at a 512-byte address.
    Daddr(Daddr),
}

/// The end of every message about a wrong request.
pub const GRAMMAR: &str = "sb|agf|agi|agfl AG, bnobt|cntbt|inobt|finobt|rmapbt|refcountbt AG [AGBNO], \
                           inode|dir|attr INODE, block FSBLOCK|AG/AGBNO, daddr SECTOR";

fn number(word: &str) -> Option<u64> {
    match word.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => word.parse().ok(),
    }
}

fn small(word: &str) -> Option<u32> {
    number(word).and_then(|n| u32::try_from(n).ok())
}

fn tree(name: &str) -> Option<Tree> {
    Tree::ALL.into_iter().find(|tree| tree.ids().tree == name)
}

fn parse(words: &[&str]) -> Option<Structure> {
    let (&name, arguments) = words.split_first()?;
    let ag = |word: &str| small(word).map(AgNumber);
    Some(match (name, arguments) {
        ("sb", []) => Structure::Sb(AgNumber(0)),
        ("sb", [n]) => Structure::Sb(ag(n)?),
        ("agf", [n]) => Structure::Agf(ag(n)?),
        ("agi", [n]) => Structure::Agi(ag(n)?),
        ("agfl", [n]) => Structure::Agfl(ag(n)?),
        ("inode", [n]) => Structure::Inode(Ino(number(n)?)),
        ("dir", [n]) => Structure::Dir(Ino(number(n)?)),
        ("attr", [n]) => Structure::Attr(Ino(number(n)?)),
        ("daddr", [n]) => Structure::Daddr(Daddr(number(n)?)),
        ("block" | "fsblock", [n]) => match n.split_once('/') {
            Some((agno, agbno)) => Structure::AgBlock(ag(agno)?, AgBlock(small(agbno)?)),
            None => Structure::Block(FsBlock(number(n)?)),
        },
        (name, [n]) => Structure::Tree(tree(name)?, ag(n)?, None),
        (name, [n, agbno]) => Structure::Tree(tree(name)?, ag(n)?, Some(AgBlock(small(agbno)?))),
        _ => return None,
    })
}

impl FromStr for Structure {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let words: Vec<&str> = text.split_whitespace().collect();
        parse(&words).ok_or_else(|| format!("cannot inspect \"{text}\"; what can be: {GRAMMAR}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_parse() {
        assert_eq!("sb 3".parse(), Ok(Structure::Sb(AgNumber(3))));
        assert_eq!("inode 0x83".parse(), Ok(Structure::Inode(Ino(131))));
        assert_eq!("block 1/7".parse(), Ok(Structure::AgBlock(AgNumber(1), AgBlock(7))));
        assert_eq!("rmapbt 2".parse(), Ok(Structure::Tree(Tree::Rmap, AgNumber(2), None)));
        for bad in ["", "sb x", "agf", "inode", "nothing 1", "inode 1 2", "block 1/x"] {
            assert!(bad.parse::<Structure>().unwrap_err().contains("rmapbt"), "{bad}");
        }
    }
}
