//! Loads by wrk, ab and h2load.

use std::fs;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::{Measured, Wrong, aborted, is_aborted};
use crate::environment::Temporary;
use crate::load::{AbRun, Closed, LoadProtocol, Question};
use crate::process::{TICKS_PER_SECOND, find, own_ticks};
use crate::record::Figure;
use crate::tls;

/// Runs wrk with one thread: on a small machine more threads would take processors from the server.
/// The script has no `response` function, which would slow wrk down.
///
/// # Errors
/// The program cannot be run, or its output is not understood or tells of errors.
pub(super) fn wrk(closed: Closed, question: &Question, port: u16) -> Result<Measured, Wrong> {
    let (mut command, _script) = wrk_command(closed, question, port)?;
    let ran = run(&mut command)?;
    let measured = wrk_measured(&ran.output, closed, question)?;
    Ok(Measured {
        loader_share: ran.processor_share,
        ..measured
    })
}

/// The wrk command, and the folder with its script, which must exist while the command runs.
///
/// # Errors
/// The folder or the script cannot be written.
pub(crate) fn wrk_command(
    closed: Closed,
    question: &Question,
    port: u16,
) -> Result<(Command, Temporary), Wrong> {
    // A folder of its own: no other user can have prepared a file of that name.
    let folder = Temporary::new()?;
    let script = folder.path().join("summary.lua");
    fs::write(&script, WRK_SCRIPT)?;
    let mut command = program("wrk")?;
    command
        .args(["-t1", "--timeout", "30s", "-s"])
        .arg(&script)
        .arg(format!("-c{}", closed.connections))
        .arg(format!("-d{}s", whole_seconds(closed.time)));
    add_fields(&mut command, question);
    command.arg(url(question, port));
    Ok((command, folder))
}

/// Parses the output of wrk and checks its errors and the number of bytes.
///
/// # Errors
/// The output is not understood, or tells of errors or of too few bytes.
pub(crate) fn wrk_measured(
    output: &str,
    closed: Closed,
    question: &Question,
) -> Result<Measured, Wrong> {
    let line = output.lines().find_map(|line| line.strip_prefix("SUMMARY "));
    let numbers: Vec<f64> = line
        .unwrap_or_default()
        .split(' ')
        .filter_map(|word| word.parse().ok())
        .collect();
    let &[requests, microseconds, bytes, connect, read, write, status, timeout, p50, p99, p999] =
        numbers.as_slice()
    else {
        return Err(Wrong(format!("wrk said: {}", end_of(output))));
    };
    for (count, what) in [
        (connect, "connections"),
        (read, "reads"),
        (write, "writes"),
        (timeout, "time-outs"),
        (status, "bad statuses"),
    ] {
        if count > 0.0 {
            return Err(Wrong(format!("{count} {what} failed")));
        }
    }
    let seconds = microseconds / 1e6;
    check_bytes(requests, bytes, closed.connections, question)?;
    Ok(Measured {
        requests: requests as u64,
        seconds,
        figures: [
            (Figure::RequestsPerSecond, requests / seconds),
            (Figure::BytesPerSecond, bytes / seconds),
            (Figure::Latency50, p50 / 1e3),
            (Figure::Latency99, p99 / 1e3),
            (Figure::Latency999, p999 / 1e3),
        ]
        .into(),
        ..Measured::default()
    })
}

/// Runs ab. `-l` accepts answers of different lengths, since a page may contain its own duration;
/// the sample checks the length.
///
/// # Errors
/// The program cannot be run, or its output is not understood or tells of errors.
pub(super) fn ab(bench: AbRun, question: &Question, port: u16) -> Result<Measured, Wrong> {
    let mut command = program("ab")?;
    // `-t` sets `-n` as well, so it must come first.
    command.args(["-q", "-l", "-s", "30"]);
    command.arg("-t").arg(whole_seconds(bench.at_most).to_string());
    command.arg("-n").arg(bench.requests.to_string());
    command
        .arg("-c")
        .arg((bench.concurrency as u64).min(bench.requests).to_string());
    if bench.keep_alive {
        command.arg("-k");
    }
    add_fields(&mut command, question);
    let ran = run(command.arg(url(question, port)))?;
    let number = |label: &str| -> Option<f64> {
        let line = ran.output.lines().find_map(|line| line.strip_prefix(label))?;
        line.split_whitespace().next()?.parse().ok()
    };
    let (Some(requests), Some(seconds)) =
        (number("Complete requests:"), number("Time taken for tests:"))
    else {
        return Err(Wrong(format!("ab said: {}", ran.end())));
    };
    for label in ["Failed requests:", "Non-2xx responses:", "Write errors:"] {
        if let Some(count) = number(label).filter(|count| *count > 0.0) {
            return Err(Wrong(format!("{} {count}", label.to_lowercase())));
        }
    }
    let mut figures = vec![(Figure::RequestsPerSecond, requests / seconds)];
    figures.extend(number("  50%").map(|value| (Figure::Latency50, value)));
    figures.extend(number("  99%").map(|value| (Figure::Latency99, value)));
    figures
        .extend(number("HTML transferred:").map(|bytes| (Figure::BytesPerSecond, bytes / seconds)));
    Ok(Measured {
        requests: requests as u64,
        seconds,
        figures: figures.into_iter().collect(),
        loader_share: ran.processor_share,
        ..Measured::default()
    })
}

/// Runs h2load with one thread for every two processors: the others are the server's.
///
/// # Errors
/// The program cannot be run, or its output is not understood or tells of errors.
pub(super) fn h2load(
    closed: Closed,
    streams: usize,
    question: &Question,
    port: u16,
) -> Result<Measured, Wrong> {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = (processors / 2).clamp(1, closed.connections.max(1));
    let mut command = program("h2load")?;
    command
        .arg(format!("-m{streams}"))
        .arg(format!("-t{threads}"))
        .arg(format!("-c{}", closed.connections))
        .arg(format!("-D{}", whole_seconds(closed.time)))
        .arg(format!("--tls13-ciphers={}", tls::CIPHER))
        .arg(format!("--ciphers={}", tls::CIPHERS_OF_1_2))
        .arg(format!("--groups={}", tls::GROUP));
    match question.protocol {
        LoadProtocol::Http | LoadProtocol::Https => command.arg("--h1"),
        LoadProtocol::Http2 => command.arg("--npn-list=h2"),
    };
    if question.protocol != LoadProtocol::Http {
        command.arg(format!("--connect-to=127.0.0.1:{port}"));
    }
    add_fields(&mut command, question);
    let ran = run(command.arg(url(question, port)))?;
    let counts = line_of(&ran.output, "requests: ");
    let requests = count_of(counts, "succeeded");
    if requests == 0.0 {
        return Err(Wrong(format!("h2load said: {}", ran.end())));
    }
    for label in ["failed", "errored", "timeout"] {
        if count_of(counts, label) > 0.0 {
            return Err(Wrong(format!("{} {label}", count_of(counts, label))));
        }
    }
    if question.protocol == LoadProtocol::Http2
        && line_of(&ran.output, "Application protocol: ") != "h2"
    {
        return Err(Wrong("the server does not speak HTTP/2".to_owned()));
    }
    check_status(&ran.output, requests)?;
    let under_way = closed.connections * streams;
    check_data(&ran.output, requests, under_way, question)?;
    let seconds = closed.time.as_secs_f64().max(1.0);
    Ok(Measured {
        requests: requests as u64,
        seconds,
        figures: [(Figure::RequestsPerSecond, requests / seconds)].into(),
        loader_share: ran.processor_share / threads as f64,
        ..Measured::default()
    })
}

fn line_of<'o>(output: &'o str, begin: &str) -> &'o str {
    let line = output.lines().find_map(|line| line.strip_prefix(begin));
    line.unwrap_or_default().trim()
}

/// The number before a label, as in `12 succeeded, 0 failed`.
fn count_of(line: &str, label: &str) -> f64 {
    let part = line.split(',').find(|part| part.trim_end().ends_with(label));
    part.and_then(|part| part.split_whitespace().next()?.parse().ok())
        .unwrap_or(0.0)
}

/// h2load counts every whole answer as a success, whatever its status.
fn check_status(output: &str, requests: f64) -> Result<(), Wrong> {
    let statuses = line_of(output, "status codes: ");
    let others: f64 = ["3xx", "4xx", "5xx"].map(|label| count_of(statuses, label)).iter().sum();
    // An answer whose content was under way at the end has a status, too.
    if others > 0.0 || count_of(statuses, "2xx") < requests {
        return Err(Wrong(format!("bad statuses: {statuses}")));
    }
    Ok(())
}

/// Checks the bytes of content that h2load has received: those of all answers, and at most those
/// of answers under way besides. For HTTP/1.1 the number has chunks in it.
fn check_data(
    output: &str,
    requests: f64,
    under_way: usize,
    question: &Question,
) -> Result<(), Wrong> {
    let line = line_of(output, "traffic: ");
    let data = line.split(',').find(|part| part.trim_end().ends_with(" data"));
    let bytes = data.and_then(|part| part.split(['(', ')']).nth(1)?.parse::<f64>().ok());
    let (Some(bytes), Some(body)) = (bytes, &question.body) else {
        return Ok(());
    };
    let body = body.len() as f64;
    let most = (requests + under_way as f64) * (body * (1.0 + 1.0 / 64.0) + CHUNKS);
    if bytes < requests * body || bytes > most {
        return Err(Wrong(format!("{bytes} bytes came for {requests} answers of {body}")));
    }
    Ok(())
}

/// Upper limit of the bytes that frame a small answer in chunks.
const CHUNKS: f64 = 64.0;

/// Interval at which an ended program is looked for.
const LOOK: Duration = Duration::from_millis(5);

struct Ran {
    output: String,
    /// Share of one processor.
    processor_share: f64,
}

impl Ran {
    fn end(&self) -> &str {
        end_of(&self.output)
    }
}

fn end_of(output: &str) -> &str {
    let trimmed = output.trim();
    let start = (0..=trimmed.len().saturating_sub(300))
        .rev()
        .find(|at| trimmed.is_char_boundary(*at));
    &trimmed[start.unwrap_or(0)..]
}

fn program(name: &str) -> Result<Command, Wrong> {
    let path = find(&[name])
        .ok_or_else(|| Wrong(format!("{name} is not installed; `howdah-lab setup` installs it")))?;
    Ok(Command::new(path))
}

/// Runs a command to its end, unless the run is aborted. Its CPU time is the growth of that of our
/// own children that were waited for.
fn run(command: &mut Command) -> Result<Ran, Wrong> {
    let (before, began) = (own_ticks(), Instant::now());
    let mut child = command
        // Ctrl-C reaches only us: the present round is finished first.
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    // The output of these programs fits into a pipe.
    while child.try_wait()?.is_none() {
        if is_aborted() {
            // The program may have ended by the same signal.
            let _ = child.kill();
        }
        std::thread::sleep(LOOK);
    }
    let output = child.wait_with_output()?;
    if is_aborted() {
        return Err(aborted());
    }
    let elapsed = began.elapsed().as_secs_f64();
    let ticks = own_ticks().saturating_sub(before) as f64;
    let text = [output.stdout, output.stderr].concat();
    Ok(Ran {
        output: String::from_utf8_lossy(&text).into_owned(),
        processor_share: ticks / TICKS_PER_SECOND / elapsed.max(0.001),
    })
}

fn url(question: &Question, port: u16) -> String {
    match question.protocol {
        LoadProtocol::Http => format!("http://127.0.0.1:{port}{}", question.path),
        LoadProtocol::Https | LoadProtocol::Http2 => {
            format!("https://{}:{port}{}", tls::HOST, question.path)
        }
    }
}

fn add_fields(command: &mut Command, question: &Question) {
    if let Some(host) = &question.host {
        command.arg("-H").arg(format!("Host: {host}"));
    }
    for (name, value) in &question.fields {
        command.arg("-H").arg(format!("{name}: {value}"));
    }
}

fn whole_seconds(time: Duration) -> u64 {
    time.as_secs_f64().round().max(1.0) as u64
}

/// Checks the number of bytes: at least the bodies of all answers, at most those with large heads.
fn check_bytes(
    requests: f64,
    bytes: f64,
    connections: usize,
    question: &Question,
) -> Result<(), Wrong> {
    if requests == 0.0 {
        return Err(Wrong("not one answer".to_owned()));
    }
    let Some(body) = &question.body else {
        return Ok(());
    };
    let body = body.len() as f64;
    let under_way = connections as f64 * (body + HEAD_ROOM);
    let most = requests * (body * (1.0 + 1.0 / 64.0) + HEAD_ROOM) + under_way;
    if bytes < requests * body || bytes > most {
        return Err(Wrong(format!("{bytes} bytes came for {requests} answers of {body}")));
    }
    Ok(())
}

/// Upper limit of a response head in bytes.
const HEAD_ROOM: f64 = 2048.0;
const WRK_SCRIPT: &str = r"
done = function(summary, latency)
    local errors = summary.errors
    io.write(string.format(
        '\nSUMMARY %d %d %d %d %d %d %d %d %.0f %.0f %.0f\n',
        summary.requests, summary.duration, summary.bytes,
        errors.connect, errors.read, errors.write, errors.status, errors.timeout,
        latency:percentile(50), latency:percentile(99), latency:percentile(99.9)))
end
";
