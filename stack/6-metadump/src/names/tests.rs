use std::collections::HashSet;

use xfskit_units::features::VersionNum;

use super::*;

fn geo() -> Geometry {
    xfskit_units::example::geometry()
}

fn obfuscator() -> Obfuscator {
    Obfuscator::new(*b"0123456789abcdef", &geo())
}

fn entry(obfuscator: &Obfuscator, name: &[u8]) -> Vec<u8> {
    let mut name = name.to_vec();
    obfuscator.entry(&mut name);
    name
}

/// Returns many names of all lengths, printable and not.
fn samples() -> Vec<Vec<u8>> {
    let mut random = Stream(7);
    let word = |random: &mut Stream, len: usize, range: std::ops::Range<u64>| {
        let mut byte = || match range.start + random.next() % (range.end - range.start) {
            0x2f => 0x5f,
            byte => u8::try_from(byte).unwrap(),
        };
        (0..len).map(|_| byte()).collect::<Vec<u8>>()
    };
    let mut names = Vec::new();
    for len in (1..=255).flat_map(|len| [len; 20]) {
        names.push(word(&mut random, len, 0x61..0x7b));
        names.push(word(&mut random, len, 0x20..0x7f));
        names.push(word(&mut random, len, 1..0x100));
    }
    names
}

#[test]
fn a_name_keeps_its_hash_and_length_and_stays_a_name() {
    let obfuscator = obfuscator();
    let mut same = 0;
    for name in samples() {
        let other = entry(&obfuscator, &name);
        assert_eq!(hash::name_hash(&name), hash::name_hash(&other));
        assert_eq!(name.len(), other.len());
        assert!(other.iter().all(|&byte| byte != 0 && byte != b'/'));
        assert_eq!(class_of(&name), class_of(&other));
        if name.len() >= 9 && name == other {
            same += 1;
        }
        assert!(name.len() >= LEN_MIN || name == other);
    }
    assert_eq!(same, 0, "names of nine bytes and more change");
}

#[test]
fn most_bytes_of_a_long_name_change() {
    let obfuscator = obfuscator();
    let (mut kept, mut all) = (0, 0);
    for name in samples().iter().filter(|name| name.len() >= 16) {
        let other = entry(&obfuscator, name);
        kept += name.iter().zip(&other).filter(|(a, b)| a == b).count();
        all += name.len();
    }
    assert!(kept * 8 < all, "{kept} of {all} bytes stay");
}

#[test]
fn names_of_one_hash_stay_different() {
    let obfuscator = obfuscator();
    // All printable names of five bytes with one hash, and names of six bytes.
    let mut groups: Vec<Vec<Vec<u8>>> = Vec::new();
    for base in [&b"hello"[..], b"world", b"longer name", b"caf\xc3\xa9 au lait"] {
        let class = class_of(base);
        let mut random = Stream(3);
        let mut group = HashSet::from([base.to_vec()]);
        for i in 0..5000 {
            let mut name = base.to_vec();
            let window = name.len().min(WINDOW);
            let start = name.len() - window;
            let word = load(&name[start..]) ^ mask(&mut random, window - LEN_MIN, class, i);
            if is_valid(word, class) {
                store(&mut name[start..], word);
                group.insert(name);
            }
        }
        groups.push(group.into_iter().collect());
    }
    for group in groups {
        assert!(group.len() > 1);
        let results: HashSet<_> = group.iter().map(|name| entry(&obfuscator, name)).collect();
        assert_eq!(results.len(), group.len());
    }
}

#[test]
fn keys_give_different_results_and_one_key_the_same() {
    let (one, two) = (obfuscator(), Obfuscator::new(*b"fedcba9876543210", &geo()));
    let name = b"a name of some length";
    assert_eq!(entry(&one, name), entry(&one, name));
    assert_ne!(entry(&one, name), entry(&two, name));
}

#[test]
fn the_orphanage_keeps_its_name_and_no_other_takes_it() {
    let obfuscator = obfuscator();
    assert_eq!(entry(&obfuscator, ORPHANAGE), ORPHANAGE);
    let mut before = ORPHANAGE.to_vec();
    // Steps exchange names in pairs, so undoing them needs the reverse order: search instead.
    for _ in 0..1000 {
        obfuscator.exchange(&mut before, false);
        if before == ORPHANAGE {
            return;
        }
        assert_ne!(entry(&obfuscator, &before), ORPHANAGE, "{before:?}");
    }
}

#[test]
fn the_parts_of_a_path_are_names_of_entries() {
    let obfuscator = obfuscator();
    let mut path = b"../some directory//some file".to_vec();
    obfuscator.path(&mut path);
    let (dir, file) = (entry(&obfuscator, b"some directory"), entry(&obfuscator, b"some file"));
    assert_eq!(path, [b"../", &dir[..], b"//", &file].concat());
}

#[test]
fn volumes_that_ignore_case_hash_the_result_alike() {
    let mut geo = geo();
    geo.features.versionnum |= VersionNum::BORG;
    let obfuscator = Obfuscator::new([9; 16], &geo);
    for name in samples() {
        let other = entry(&obfuscator, &name);
        assert_eq!(hash::dir_hash(&geo, &name), hash::dir_hash(&geo, &other));
    }
    assert_eq!(entry(&obfuscator, b"SomeFile.TXT"), entry(&obfuscator, b"somefile.txt"));
}

#[test]
fn masks_have_the_hash_0_and_validity_is_that_of_each_byte() {
    let mut random = Stream(5);
    for i in 0..10_000usize {
        let class = if i % 3 == 0 { Class::Other } else { Class::Printable };
        let head = i % 4;
        let word = mask(&mut random, head, class, i);
        let bytes = word.to_be_bytes();
        assert_eq!(hash::name_hash(&bytes), 0, "{word:#x}");
        assert!(bytes[..3 - head].iter().all(|byte| *byte == 0));
        let word = random.next() & all(0x7f) | u64::from(i % 7 == 0) << 63;
        let each = |fits: fn(u8) -> bool| word.to_be_bytes().into_iter().all(fits);
        let printable = each(|byte| (0x20..0x7f).contains(&byte) && byte != b'/');
        assert_eq!(is_valid(word, Class::Printable), printable, "{word:#x}");
        assert_eq!(is_valid(word, Class::Other), each(|byte| byte != 0 && byte != b'/'));
    }
}
