use super::*;

fn load(busy: f64, waiting: Option<f64>) -> Load {
    let named = |name: &str, part| (name.to_owned(), part);
    let processes = vec![
        named("sleeper (7)", 0.5),
        named("cc (8)", 40.0),
        named("rustc (9)", 120.0),
        named("ld (10)", 3.0),
        named("sh (11)", 2.0),
    ];
    Load { busy, waiting, processes }
}

#[test]
fn processors_and_disks_decide_whether_a_machine_is_idle() {
    for (busy, waiting, idle) in [
        (0.0, None, true),
        (5.0, Some(10.0), true),
        (5.1, Some(0.0), false),
        (0.0, Some(10.1), false),
        (80.0, None, false),
    ] {
        assert_eq!(load(busy, waiting).is_idle(), idle, "{busy} % busy, {waiting:?} % waiting");
    }
}

#[test]
fn the_figure_and_the_processes_with_most_time_are_named() {
    assert_eq!(
        load(81.4, Some(3.0)).describe(),
        "other programs take 81 % of the processors (rustc (9) 120 %, cc (8) 40 %, ld (10) 3 % of one)"
    );
    let waits = Load { processes: Vec::new(), ..load(1.0, Some(60.0)) };
    assert_eq!(
        waits.describe(),
        "other programs take 1 % of the processors, and wait for disks 60 % of the time"
    );
}

#[test]
fn a_machine_that_becomes_idle_is_waited_for_and_a_busy_one_not_for_ever() {
    let mut loads = vec![load(1.0, None), load(50.0, None), load(90.0, None)];
    let mut told = Vec::new();
    let wait = |load: &Load, pause: Duration| {
        told.push((load.busy, pause));
        Ok::<_, ()>(())
    };
    let last = wait_until_idle(|| Ok(loads.pop().expect("no look after an idle one")), wait);
    assert!(last.expect("a load").is_idle());
    assert_eq!(told, [(90.0, PAUSE), (50.0, PAUSE)]);

    let (mut looks, mut waits) = (0, 0);
    let look = || {
        looks += 1;
        Ok::<_, ()>(load(90.0, None))
    };
    let wait = |_: &Load, _| {
        waits += 1;
        Ok(())
    };
    assert!(!wait_until_idle(look, wait).expect("a load").is_idle());
    assert_eq!((looks, waits), (LOOKS, LOOKS - 1));
    let stopped = wait_until_idle(|| Ok(load(90.0, None)), |_, _| Err("stopped"));
    assert_eq!(stopped, Err("stopped"));
}

#[test]
fn times_are_read_as_the_kernel_writes_them() {
    let stat = "cpu  100 10 40 300 20 5 5 20 7 0\ncpu0 1 2 3\n";
    assert_eq!(ticks_of_processors(stat), (180, 500));
    assert_eq!(ticks_of_processors(""), (0, 0));
    let stat = "42 (a (b) c) S 1 42 42 0 -1 4194304 10 0 0 0 250 50 0 0 20 0 1 0 99";
    assert_eq!(ticks_of_process(stat), Some(("a (b) c".into(), 300)));
    assert_eq!(ticks_of_process("42 (a"), None);
    let io = "some avg10=1.50 avg60=0.40 avg300=0.10 total=123456\nfull avg10=0.00 total=7\n";
    assert_eq!(total_of_some(io), Some(123_456));
    assert_eq!(total_of_some("full avg10=0.00 total=7"), None);
}

#[test]
fn this_process_is_no_load_and_all_others_are() {
    let own = std::process::id();
    let times = |busy, all, mine, other| Times {
        busy,
        all,
        waited: Some(busy * 1000),
        processes: [(own, ("xfskit".into(), mine)), (own + 1, ("cc".into(), other))].into(),
    };
    let seen = times(300, 1400, 100, 100).since(&times(100, 1000, 0, 0));
    // 200 of 400 ticks were busy, 100 of them in this process.
    assert_eq!((seen.busy, seen.waiting), (25.0, Some(10.0)));
    assert_eq!(seen.processes, [(format!("cc ({})", own + 1), 50.0)]);
}

#[test]
fn the_load_of_this_machine_can_be_read() {
    let times = Times::now().expect("/proc");
    assert!(times.all > 0 && times.processes.contains_key(&std::process::id()));
}

#[test]
fn a_busy_machine_is_waited_for_for_two_minutes() {
    assert_eq!(wait_max(), Duration::from_secs(120));
}
