//! `xfskit md guess`: members whose superblocks are gone.

use serde_json::json;
use xfskit::md::Member;
use xfskit::md::guess::{self, Guess};
use xfskit::target::{ArrayName, Target};

use crate::exit::{Answer, Failure, Outcome};
use crate::out::Out;

/// `xfskit md guess`. The answer is no where nothing can be told.
pub(crate) fn run(names: &[String], scan: u64, out: &Out) -> Outcome {
    let members = super::members(names)?;
    let device = |member: &Member| member.device.clone();
    let devices: Vec<_> = members.iter().map(|member| member.as_ref().map(device)).collect();
    let guesses = guess::guess(&devices, scan);
    for guess in &guesses {
        let target = target(guess, &members)?;
        let object = json!({
            "target": target,
            "pieces_right": guess.right,
            "pieces_found": guess.found,
            "certain": guess.certain,
        });
        out.answer(&object, |_| format!("{target}\n"))?;
        out.note(&format!(
            "{} of {} pieces of the volume that were found lie where they should{}",
            guess.right,
            guess.found,
            if guess.certain { "" } else { "; for some members nothing tells the order" }
        ));
    }
    if guesses.is_empty() {
        out.note("no XFS volume is found on them that could tell");
    }
    Ok(Answer::of(!guesses.is_empty()))
}

/// The target that a guess comes to.
fn target(guess: &Guess, members: &[Option<Member>]) -> Result<String, Failure> {
    let named = |role: &Option<usize>| match role.and_then(|i| members[i].as_ref()) {
        None => Ok(None),
        Some(member) => Target::parse(&member.name).map(Some),
    };
    let members: Result<Vec<_>, _> = guess.order.iter().map(named).collect();
    let members = members.map_err(|e| Failure::cannot(e.to_string()))?;
    Ok(ArrayName::new(Some(guess.bare), members).to_string())
}
