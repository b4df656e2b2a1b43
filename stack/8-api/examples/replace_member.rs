//! Adds a new file to an array whose member is lost, and fills it:
//! `replace_member md:a.img,missing,c.img new.img`.

use xfskit::md::{ArrayOptions, NewDevices, Rebuild};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (array, new) = (std::env::args().nth(1), std::env::args().nth(2));
    let mut array = ArrayOptions::new().write(true).open(array.ok_or("which array?")?)?;
    let size = array.members().iter().map(|m| (m.data_offset.0 + m.data_size.0) * 512).max();
    array.add(new.ok_or("which file?")?, &NewDevices::new().create(size.ok_or("no member")?))?;
    let rebuilt = Rebuild::new().run(&mut array)?;
    println!("missing: {:?}, unreadable sectors: {}", array.missing(), rebuilt.bad_sectors);
    array.close()?;
    Ok(())
}
