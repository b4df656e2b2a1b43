//! One structure, one field, one verb.

use std::hash::{DefaultHasher, Hash, Hasher};

use xfskit_test_support::Random;

use crate::base::Base;
use crate::fields::{self, Field};
use crate::locate::Structure;
use crate::verbs::Verb;

/// One case.
#[derive(Clone, Debug)]
pub struct Case<'s> {
    /// The structure.
    pub structure: &'s Structure,
    /// The field.
    pub field: &'s Field,
    /// The verb.
    pub verb: Verb,
}

/// Which cases are run: all whose parts have these names, where a name is given.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Beginning of the structure's name.
    pub structure: Option<String>,
    /// The field's name.
    pub field: Option<String>,
    /// The verb's name.
    pub verb: Option<String>,
}

impl Filter {
    fn takes(&self, case: &Case<'_>) -> bool {
        let starts = self.structure.as_ref().is_none_or(|name| case.is_of(name));
        let field = self.field.as_ref().is_none_or(|name| case.field.name == *name);
        starts && field && self.verb.as_ref().is_none_or(|name| case.verb.name() == *name)
    }
}

impl Case<'_> {
    /// Returns `structure.field.verb`.
    pub fn name(&self) -> String {
        format!("{}.{}.{}", self.structure.name, self.field.name, self.verb.name())
    }

    /// Returns whether the structure has this name, or belongs to this group of structures.
    fn is_of(&self, name: &str) -> bool {
        let rest = self.structure.name.strip_prefix(name);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    }

    /// Returns whether the field is the checksum, or a part of it.
    fn is_checksum(&self) -> bool {
        self.field.bit == 8 * self.structure.checksum.offset()
    }

    /// Returns the damaged structure, with its checksum right unless that is the field. `None` if
    /// the verb does not change it.
    ///
    /// # Errors
    /// Reading the structure, or the field lies outside of it.
    pub fn damaged(&self, base: &Base, seed: u64) -> Result<Option<Vec<u8>>, String> {
        let mut object = base.bytes(self.structure.offset, self.structure.len)?;
        let old = fields::get(&object, self.field);
        let old = old.ok_or_else(|| format!("{}: outside of the structure", self.name()))?;
        let mut hasher = DefaultHasher::new();
        (self.name(), seed).hash(&mut hasher);
        let new = self.verb.apply(old, self.field.bits, &mut Random::new(hasher.finish()));
        if new == old {
            return Ok(None);
        }
        fields::set(&mut object, self.field, new);
        if !self.is_checksum() {
            self.structure.checksum.update(&mut object);
        }
        Ok(Some(object))
    }
}

/// Returns the cases that the filter takes and that change something, in an order of chance from
/// the seed, so that the first of them are a fair share; and the number that change nothing.
///
/// # Errors
/// Reading a structure.
pub fn plan<'s>(
    structures: &'s [Structure],
    base: &Base,
    filter: &Filter,
    seed: u64,
) -> Result<(Vec<Case<'s>>, usize), String> {
    let (mut cases, mut unchanged) = (Vec::new(), 0);
    for structure in structures {
        for field in structure.fields.iter().filter(|field| field.bits > 0) {
            for (verb, _) in Verb::ALL {
                let case = Case { structure, field, verb };
                if !filter.takes(&case) {
                    continue;
                }
                match case.damaged(base, seed)? {
                    Some(_) => cases.push(case),
                    None => unchanged += 1,
                }
            }
        }
    }
    let mut random = Random::new(seed);
    for i in (1..cases.len()).rev() {
        cases.swap(i, random.below(i + 1));
    }
    Ok((cases, unchanged))
}
