//! Writes to one file from several threads: `change_in_place disk.img`.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let target = std::env::args().nth(1).ok_or("usage: change_in_place TARGET")?;
    let volume = xfskit::VolumeOptions::new().write(true).open(target)?;
    volume.create_dir_all("/var/log")?;
    let log = volume.create("/var/log/threads")?;
    std::thread::scope(|scope| {
        let write = |worker: u64| -> xfskit::Result<()> {
            log.write_at(format!("worker {worker}\n").as_bytes(), worker * 9)?;
            volume.write(format!("/var/log/worker-{worker}"), "content")
        };
        let workers: Vec<_> = (0..8).map(|worker| scope.spawn(move || write(worker))).collect();
        workers.into_iter().try_for_each(|worker| worker.join().expect("no panic"))
    })?;
    volume.close()?;
    Ok(())
}
