//! POSIX ACLs in the text form that tar archives carry.

/// `user::rwx,user:1000:r--,…` from the value of a `system.posix_acl_*` attribute; `None` where
/// the value is not one.
pub(crate) fn text(value: &[u8]) -> Option<String> {
    let (version, entries) = value.split_first_chunk::<4>()?;
    let (entries, rest) = entries.as_chunks::<8>();
    if u32::from_le_bytes(*version) != 2 || !rest.is_empty() {
        return None;
    }
    let entries: Option<Vec<String>> = entries.iter().copied().map(entry).collect();
    Some(entries?.join(","))
}

/// One entry: tag and permissions in 16 bits each, then the user or group.
fn entry([t0, t1, p0, p1, id @ ..]: [u8; 8]) -> Option<String> {
    let id = u32::from_le_bytes(id);
    let who = match u16::from_le_bytes([t0, t1]) {
        0x01 => "user:".to_owned(),
        0x02 => format!("user:{id}"),
        0x04 => "group:".to_owned(),
        0x08 => format!("group:{id}"),
        0x10 => "mask:".to_owned(),
        0x20 => "other:".to_owned(),
        _ => return None,
    };
    let perm = u16::from_le_bytes([p0, p1]);
    let bit = |mask, c| if perm & mask != 0 { c } else { '-' };
    Some(format!("{who}:{}{}{}", bit(4, 'r'), bit(2, 'w'), bit(1, 'x')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_acl_reads_as_setfacl_writes_it() {
        let value = b"\x02\0\0\0\
            \x01\0\x06\0\xff\xff\xff\xff\
            \x02\0\x04\0\xe8\x03\0\0\
            \x04\0\x04\0\xff\xff\xff\xff\
            \x10\0\x04\0\xff\xff\xff\xff\
            \x20\0\0\0\xff\xff\xff\xff";
        let expected = "user::rw-,user:1000:r--,group::r--,mask::r--,other::---";
        assert_eq!(text(value).as_deref(), Some(expected));
        assert_eq!(text(&value[..10]), None);
        assert_eq!(text(b""), None);
    }
}
