use super::*;

/// Returns the text of samples: their number, the thread, and the functions, innermost first.
/// Functions of the kernel begin with a `k`.
fn script(samples: &[(usize, &str, &[&str])]) -> String {
    let one = |(count, threads, frames): &(usize, &str, &[&str])| {
        let line = |name: &&str| {
            let upper = if name.starts_with('k') { "ffffffff" } else { "    7f00" };
            format!("\t{upper}80001234 {name}\n")
        };
        let lines: Vec<String> = frames.iter().map(line).collect();
        format!("{threads} \n{}\n", lines.concat()).repeat(*count)
    };
    samples.iter().map(one).collect()
}

fn report() -> Vec<Sampled> {
    let script = script(&[
        (150, "xfskit", &["alpha::beta"]),
        (50, "kworker/1:2-xfs", &["crc32c_x86_3way", "xlog_cksum", "xlog_sync"]),
        (100, "loop3", &["do_syscall_64", "entry", "[unknown]", "garbage"]),
        (80, "rustc", &["alpha::beta", "<a as b>::c"]),
    ]);
    parse(&script, Scope::Process)
}

#[test]
fn of_the_whole_machine_only_callers_in_the_kernel_are_known() {
    let script = script(&[
        (2, "xfskit", &["k_clear_page", "k_fault", "main", "k_no_caller"]),
        (1, "xfskit", &["alpha::beta", "main"]),
    ]);
    let chains = |scope| by_chain(&parse(&script, scope));
    assert_eq!(chains(Scope::Machine), [("k_clear_page ← k_fault".into(), 2)]);
    assert_eq!(chains(Scope::Process).len(), 2);
    assert_eq!(by_function(&parse(&script, Scope::Machine)).len(), 2, "no function is lost");
}

#[test]
fn many_processors_do_not_write_more_stacks_in_a_second() {
    assert_eq!(Scope::Process.sampling(1), (499, STACK));
    assert_eq!(Scope::Process.sampling(2), (499, STACK));
    assert_eq!(Scope::Process.sampling(64), (15, STACK));
    assert_eq!(Scope::Process.sampling(4096).0, 10);
    assert_eq!(Scope::Machine.sampling(64).0, 499);
}

/// A function that is found as a caller, in any build.
#[inline(never)]
fn spin_for(time: Duration) -> u64 {
    let (end, mut sum) = (Instant::now() + time, 0);
    while Instant::now() < end {
        sum = std::hint::black_box(spun(sum));
    }
    sum
}

#[inline(never)]
fn spun(mut sum: u64) -> u64 {
    let mut n = 0;
    while n < 50_000 {
        sum = std::hint::black_box(sum ^ n);
        n += 1;
    }
    sum
}

#[test]
fn samples_give_threads_functions_and_callers() {
    let sampled = report();
    assert_eq!(sampled.len(), 4);
    let expected = Sampled {
        samples: 50,
        threads: "kworker/1:2-xfs".into(),
        function: "crc32c_x86_3way".into(),
        callers: ["xlog_cksum", "xlog_sync"].map(String::from).to_vec(),
    };
    assert_eq!(sampled[3], expected);
    let named = |of: Vec<(String, u64)>| of.into_iter().map(|(name, n)| format!("{name} {n}"));
    let functions: Vec<String> = named(by_function(&sampled)).collect();
    assert_eq!(functions, ["alpha::beta 230", "do_syscall_64 100", "crc32c_x86_3way 50"]);
    let chains: Vec<String> = named(by_chain(&sampled)).collect();
    let expected = [
        "do_syscall_64 ← entry 100",
        "alpha::beta ← <a as b>::c 80",
        "crc32c_x86_3way ← xlog_cksum ← xlog_sync 50",
    ];
    assert_eq!(chains, expected, "an unknown caller ends a chain");
    let nameless = parse(&script(&[(3, "a b", &["[unknown]", "x"])]), Scope::Process);
    assert_eq!((nameless[0].samples, nameless[0].function.as_str()), (3, "[unknown]"));
}

#[test]
fn shares_are_of_samples_and_need_enough_of_them() {
    let sampled = report();
    assert_eq!(share(&sampled, "do_syscall").unwrap(), Some(100.0 / 380.0 * 100.0));
    assert_eq!(share(&sampled[2..], "crc32c").unwrap(), None, "130 samples");
}

#[test]
fn a_profile_begins_when_it_is_started() {
    let profile = match Profile::start(Scope::Process) {
        Ok(profile) => profile,
        Err(err) => return eprintln!("skipped: perf cannot sample here: {err}"),
    };
    spin_for(Duration::from_millis(300));
    // Other tests run beside this one, and a busy machine gives it a part of the time.
    let sampled = profile.stop().expect("samples");
    let own = std::fs::read_to_string("/proc/thread-self/comm").expect("a name");
    let own: Vec<&Sampled> = sampled.iter().filter(|one| one.threads == own.trim()).collect();
    let samples: u64 = own.iter().map(|one| one.samples).sum();
    assert!(samples >= 10, "{samples} samples");
    // The caller is the right one, and its own caller is known, too.
    let is_ours = |one: &&&Sampled| one.callers.iter().any(|name| name.contains("spin_for"));
    let ours: u64 = own.iter().filter(is_ours).map(|one| one.samples).sum();
    assert!(ours * 2 >= samples, "{ours} of {samples}: {own:?}");
}

#[test]
fn other_programs_are_no_part_of_the_filesystem() {
    let threads: Vec<String> = of_filesystem(report()).into_iter().map(|one| one.threads).collect();
    assert!(threads.contains(&"loop3".into()) && threads.contains(&"kworker/1:2-xfs".into()));
    assert!(!threads.contains(&"rustc".into()));
}
