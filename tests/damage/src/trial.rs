//! One case on both sides, and its outcomes.

use std::path::{Path, PathBuf};

use serde::Serialize;
use xfskit_test_support::Xfsprogs;
use xfskit_test_support::tools::is_not_finding;

use crate::base::Base;
use crate::case::Case;
use crate::child::{Ended, Steps};
use crate::tree::{Loss, Tree};

/// What became of a damaged volume on one side. In the order of merit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// Neither check finds anything, and Linux mounts it.
    Harmless,
    /// It is clean, and the tree is the same.
    Mended,
    /// It is clean; some files have other names, in `lost+found`.
    NamesLost,
    /// It is clean; files have other content or attributes.
    DataLost,
    /// It is clean; files are gone.
    FilesLost,
    /// Nothing was written.
    Refused,
    /// The repair succeeded by its own account, and `xfs_repair -n` or Linux finds damage.
    Unclean,
    /// It ended by a panic or a signal.
    Crashed,
    /// It did not end in time.
    Hung,
}

impl Class {
    /// All classes, with the heads of their columns.
    pub const ALL: [(Self, &'static str); 9] = [
        (Self::Harmless, "harmless"),
        (Self::Mended, "mended"),
        (Self::NamesLost, "names lost"),
        (Self::DataLost, "data lost"),
        (Self::FilesLost, "files lost"),
        (Self::Refused, "refused"),
        (Self::Unclean, "unclean"),
        (Self::Crashed, "crashed"),
        (Self::Hung, "hung"),
    ];

    /// Returns the name.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(class, _)| *class == self).map_or("", |(_, name)| name)
    }

    fn of(loss: &Loss) -> Self {
        match loss {
            Loss { files: 1.., .. } => Self::FilesLost,
            Loss { content: 1.., .. } | Loss { attributes: 1.., .. } => Self::DataLost,
            Loss { names: 1.., .. } => Self::NamesLost,
            _ => Self::Mended,
        }
    }
}

/// The outcome on one side.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Outcome {
    /// Its class.
    pub class: Class,
    /// The loss of a volume that is clean.
    pub loss: Loss,
    /// Why it is not mended.
    pub why: Option<String>,
}

impl Outcome {
    fn new(class: Class) -> Self {
        Self { class, loss: Loss::default(), why: None }
    }

    fn because(class: Class, why: &str) -> Self {
        Self { why: Some(reason(why).to_owned()), ..Self::new(class) }
    }

    /// Returns a number for comparison: less is better.
    fn rank(&self) -> (Class, usize, usize) {
        let loss = &self.loss;
        (self.class, loss.files, loss.content + loss.attributes + loss.names)
    }
}

/// One case, tried.
#[derive(Clone, Debug, Serialize)]
pub struct Tried {
    /// `structure.field.verb`.
    pub case: String,
    /// The structure.
    pub structure: String,
    /// The field.
    pub field: String,
    /// The verb.
    pub verb: &'static str,
    /// The first finding of `xfskit check` before.
    pub check: Option<String>,
    /// The first finding of `xfs_repair -n` before, or the error of Linux where it has none.
    pub linux: Option<String>,
    /// The outcome of `xfskit repair`.
    pub ours: Outcome,
    /// The outcome of `xfs_repair`.
    pub theirs: Outcome,
    /// Whether `xfs_repair` asked for the journal to be thrown away (`-L`).
    pub without_journal: bool,
}

/// The beginning of what `xfs_repair -n` prints of a dirty journal.
const DIRTY_JOURNAL: &str = "ALERT: The filesystem has valuable metadata changes in a log";

impl Tried {
    /// Returns the result of a case that does no harm.
    fn harmless(case: &Case<'_>) -> Self {
        Self {
            case: case.name(),
            structure: case.structure.name.clone(),
            field: case.field.name.clone(),
            verb: case.verb.name(),
            check: None,
            linux: None,
            ours: Outcome::new(Class::Harmless),
            theirs: Outcome::new(Class::Harmless),
            without_journal: false,
        }
    }

    /// Returns whether xfskit check finds nothing where `xfs_repair -n` or Linux does. A journal
    /// that looks dirty is no damage: check replays it in memory.
    pub fn is_missed(&self) -> bool {
        let damage = self.linux.as_ref().filter(|found| !found.starts_with(DIRTY_JOURNAL));
        self.check.is_none() && damage.is_some()
    }

    /// Returns whether ours is worse than that of `xfs_repair`.
    pub fn is_worse(&self) -> bool {
        self.ours.rank() > self.theirs.rank()
    }
}

/// What a trial needs.
#[derive(Debug)]
pub struct Bench<'b> {
    /// The volume without damage.
    pub base: &'b Base,
    /// Its tree.
    pub tree: &'b Tree,
    /// The tools for it.
    pub tools: &'b Xfsprogs,
    /// The steps.
    pub steps: Steps,
    /// A directory for copies.
    pub dir: PathBuf,
    /// Seed of the random verb.
    pub seed: u64,
    /// Where damaged volumes are kept.
    pub keep: Option<PathBuf>,
}

impl Bench<'_> {
    /// Tries one case on both sides.
    ///
    /// # Errors
    /// The case cannot be tried: a program is missing, or the machine fails.
    pub fn try_case(&self, case: &Case<'_>) -> Result<Tried, String> {
        let bytes = case.damaged(self.base, self.seed)?.ok_or("a case that changes nothing")?;
        let (ours, theirs) = (self.dir.join("ours.img"), self.dir.join("theirs.img"));
        let copy = |to: &Path| self.base.copy_with(to, case.structure.offset, &bytes);
        copy(&ours)?;
        if let Some(keep) = &self.keep {
            copy(&keep.join(format!("{}.img", case.name())))?;
        }
        let mut tried = Tried::harmless(case);
        tried.linux = self.finding(&ours)?;
        let (check, outcome) = self.repair_ours(&ours)?;
        tried.check = check;
        if tried.check.is_none() && tried.linux.is_none() {
            copy(&ours)?;
            tried.linux = self.refusal_of_linux(&ours)?;
            if tried.linux.is_none() {
                return Ok(tried);
            }
        }
        tried.ours = match outcome {
            Some(outcome) => outcome,
            None => self.judge(&ours)?,
        };
        copy(&theirs)?;
        (tried.theirs, tried.without_journal) = self.repair_theirs(&theirs)?;
        Ok(tried)
    }

    /// Checks and repairs with xfskit. Returns the finding of the check, and the outcome unless the
    /// volume has to be judged.
    fn repair_ours(&self, image: &Path) -> Result<(Option<String>, Option<Outcome>), String> {
        Ok(match self.steps.ours(image)? {
            Ended::Done(said) => {
                let refused = said.refused.as_deref();
                (said.found, refused.map(|why| Outcome::because(Class::Refused, why)))
            }
            Ended::Crashed(text) => {
                let outcome = Outcome::because(Class::Crashed, &text);
                (Some("crashed".into()), Some(outcome))
            }
            Ended::Hung => (Some("hung".into()), Some(Outcome::new(Class::Hung))),
        })
    }

    /// Repairs with `xfs_repair`. Returns the outcome, and whether the journal was thrown away.
    fn repair_theirs(&self, image: &Path) -> Result<(Outcome, bool), String> {
        /// Exit code of `xfs_repair` for a journal that must be replayed.
        const DIRTY_LOG: Option<i32> = Some(2);
        let repair = |option: &[&str]| {
            self.steps.run(self.tools.command("xfs_repair").args(option).arg(image))
        };
        let mut ended = repair(&[])?;
        let dirty = matches!(&ended, Ended::Done((code, _)) if *code == DIRTY_LOG);
        if dirty {
            ended = repair(&["-L"])?;
        }
        let outcome = match ended {
            Ended::Done((Some(0), _)) => self.judge(image)?,
            Ended::Done((_, text)) => {
                let last = text.trim_end().lines().last().unwrap_or("");
                Outcome::because(Class::Refused, last)
            }
            Ended::Crashed(text) => Outcome::because(Class::Crashed, &text),
            Ended::Hung => Outcome::new(Class::Hung),
        };
        Ok((outcome, dirty))
    }

    /// Returns the first finding of `xfs_repair -n`.
    fn finding(&self, image: &Path) -> Result<Option<String>, String> {
        let mut command = self.tools.command("xfs_repair");
        Ok(match self.steps.run(command.arg("-n").arg(image))? {
            Ended::Done((code, text)) => {
                let found = text.lines().find(|line| !is_not_finding(line)).map(str::to_owned);
                found.or_else(|| (code != Some(0)).then(|| format!("code {code:?}")))
            }
            Ended::Crashed(_) => Some("xfs_repair -n crashed".into()),
            Ended::Hung => Some("xfs_repair -n hung".into()),
        })
    }

    /// Returns why Linux does not work with a volume.
    fn refusal_of_linux(&self, image: &Path) -> Result<Option<String>, String> {
        Ok(match self.steps.linux(image)? {
            Ended::Done(linux) => linux.refused.map(|why| format!("Linux: {}", reason(&why))),
            Ended::Crashed(text) => Some(format!("Linux: {}", reason(&text))),
            Ended::Hung => Some("Linux: hung".into()),
        })
    }

    /// Returns what a repair made of the volume.
    fn judge(&self, image: &Path) -> Result<Outcome, String> {
        let unclean = |why: &str| Ok(Outcome::because(Class::Unclean, why));
        if let Some(found) = self.finding(image)? {
            return unclean(&found);
        }
        let tree = match self.steps.linux(image)? {
            Ended::Done(linux) => match linux.refused {
                None => linux.tree,
                Some(why) => return unclean(&format!("Linux: {}", reason(&why))),
            },
            Ended::Crashed(text) => return unclean(&format!("Linux: {}", reason(&text))),
            Ended::Hung => return unclean("Linux: hung"),
        };
        if let Some(found) = self.finding(image)? {
            return unclean(&format!("after writing: {found}"));
        }
        let loss = self.tree.loss(&tree);
        Ok(Outcome { class: Class::of(&loss), loss, why: None })
    }
}

/// Returns the line of an output that says why: the message of a panic, the error of mount(8), else
/// the first.
fn reason(text: &str) -> &str {
    let mut panic = text.lines().skip_while(|line| !line.contains("panicked at")).skip(1);
    let refused = || text.find("mount(2)").and_then(|at| text[at..].lines().next());
    let first = || text.lines().find(|line| !line.trim().is_empty());
    panic.next().or_else(refused).or_else(first).unwrap_or("")
}
