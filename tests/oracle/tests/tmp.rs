//! t
use xfskit_test_oracle::*;
use std::process::Command;
#[test]
fn all() {
    let scratch = Scratch::new("x");
    let image = corruption::volume(&scratch).unwrap();
    tools::run(Command::new("cp").arg("--sparse=always").arg(image.path()).arg("/work/scratch/oracle/judged.img")).unwrap();
    let tools = Xfsprogs::newer().unwrap();
    tools.repair_n(&image, &[]).unwrap();
    let mount = Mount::read_only(&image, &scratch).unwrap();
    let all: Vec<_> = corruption::FAULTS.iter().map(|f| (f, f.commands_for(&mount))).collect();
    mount.unmount().unwrap();
    for (f, commands) in all {
        let c = image.copy("copy.img");
        let cs: Vec<&str> = commands.iter().map(String::as_str).collect();
        let mut db = tools.command("xfs_db"); db.arg("-x");
        for x in &cs { db.args(["-c", x]); }
        let out = db.arg(c.path()).output().unwrap();
        let said = format!("{}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
        let same = Command::new("cmp").arg("-s").arg(image.path()).arg(c.path()).status().unwrap().success();
        if same { eprintln!("{}: NOTHING WRITTEN {said}", f.name); continue }
        let r = tools.command("timeout").status(); let _ = r;
        let mut rep = Command::new("timeout"); rep.arg("20").arg("/work/xfs613/bin/xfs_repair").arg("-n").arg(c.path());
        let out = rep.output().unwrap();
        let sees = !out.status.success();
        let quiet = sees == (f.repair == corruption::Repair::Sees);
        eprintln!("{} {} {:?} {}", if quiet {"ok"} else {"DIFFERENT"}, f.name, out.status.code(), if quiet {String::new()} else {said});
    }
}
