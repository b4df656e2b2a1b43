//! What the repairs of one layer share.

use std::collections::BTreeSet;

use xfskit_check::KnownChunks;
use xfskit_format::bmbt::Extent;
use xfskit_format::inode::{self, Dinode, Format, InodeMut};
use xfskit_units::{AgNumber, Ino};

use crate::attributes;
use crate::chunk_bits;
use crate::damage::Damage;
use crate::error::Result;
use crate::forks::{Content, Forks, Writer};
use crate::journal_copies::JournalCopies;
use crate::plan::{Plan, Step, StepKind};
use crate::view::View;

/// The repair of one layer.
pub(crate) struct Layer<'l, 'r> {
    pub view: View<'r>,
    pub writer: Writer<'l, 'r>,
    /// Inode chunks whose records are replaced.
    pub known: &'l mut KnownChunks,
    /// Groups whose inodes were looked for, because their inode btrees are lost.
    pub scanned: &'l BTreeSet<AgNumber>,
    pub copies: &'l JournalCopies<'r>,
    pub plan: &'l mut Plan,
}

impl Layer<'_, '_> {
    /// Frees an inode that is beyond use.
    pub(crate) fn clear(&mut self, ino: Ino, damage: Damage, names: &[String]) -> Result<()> {
        self.write_free(ino)?;
        chunk_bits::set(self.view, self.known, ino, false);
        let named = if names.is_empty() { "without a name".into() } else { names.join(", ") };
        self.plan.cleared += 1;
        self.plan.steps.push(Step {
            id: format!("inode.{ino}"),
            kind: StepKind::Inode,
            what: format!("free inode {ino}, which is beyond use"),
            evidence: vec!["neither its fields nor its forks are sound".into()],
            lost: vec![format!("inode {ino} ({named})")],
            findings: damage.findings,
            path: None,
        });
        Ok(())
    }

    /// Lays the maps of both forks of inode `ino` out again, whose core and forks are in `bytes`.
    ///
    /// # Errors
    /// Those of [`Writer::write`].
    pub(crate) fn write_maps(
        &mut self,
        ino: Ino,
        bytes: &mut [u8],
        [data, attr]: [Vec<Extent>; 2],
    ) -> Result<()> {
        let attr = match attributes::content(self.view, bytes, ino) {
            Content::Mapped(_) => Content::Mapped(attr),
            // A fork that the inode has lost.
            Content::None if !attr.is_empty() => Content::Mapped(attr),
            content => content,
        };
        let inode = Dinode::parse(bytes, self.view.geo);
        let data = inode.map_or(Content::None, |inode| data_content(&inode, data));
        self.writer.write(ino, bytes, &Forks { data, attr, forkoff: None })
    }

    /// Writes an inode that is free.
    pub(crate) fn write_free(&mut self, ino: Ino) -> Result<()> {
        let Some(mut bytes) = self.view.inode(ino)? else { return Ok(()) };
        let old = InodeMut::new(&mut bytes).map_or(0, |inode| inode.core.core.generation.get());
        inode::template(&mut bytes, self.view.geo, ino, old.wrapping_add(1));
        self.writer.put(self.view.geo.ino_to_byte(ino), &bytes)
    }
}

/// Returns the content of a data fork as it is.
pub(crate) fn data_content(inode: &Dinode<'_>, extents: Vec<Extent>) -> Content {
    match inode.format() {
        Some(Format::Local) => {
            let fork = inode.data_fork();
            let size = usize::try_from(inode.size().0).unwrap_or(usize::MAX);
            Content::Local(fork.get(..size).unwrap_or(fork).to_vec())
        }
        Some(Format::Dev) => {
            let fork = inode.data_fork();
            Content::Device(fork.get(..8).unwrap_or(fork).to_vec())
        }
        _ => Content::Mapped(extents),
    }
}
