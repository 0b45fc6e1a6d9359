//! The walk through the admin API in docs/admin.md, as it stands but for the ports.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Command, Stdio};

use crate::demo::Demo;
use crate::process::{Process, arg, tollward};
use crate::served::{Folder, example, until};

const DOCUMENT: &str = include_str!("../../../../docs/admin.md");
/// What stands for anything in the document.
const ANYTHING: char = '…';
/// Printed behind what each command prints.
const END: &str = "-- that was it --";

/// A command of the document, and what it prints.
#[derive(Debug, Default)]
struct Step {
    command: String,
    expected: String,
}

/// The commands of all `console` blocks. A line behind one that is indented goes on with it.
fn steps() -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let blocks = DOCUMENT.split("```console\n").skip(1);
    for line in blocks.flat_map(|block| block.split("```").next().unwrap().lines()) {
        if let Some(command) = line.strip_prefix("$ ") {
            steps.push(Step {
                command: command.to_owned(),
                ..Step::default()
            });
            continue;
        }
        let step = steps.last_mut().unwrap();
        let text = match line.starts_with("    ") && step.expected.is_empty() {
            true => &mut step.command,
            false => &mut step.expected,
        };
        *text = format!("{text}\n{line}");
    }
    steps
}

impl Step {
    /// Whether what was printed is what the document says.
    fn is_met_by(&self, printed: &str) -> bool {
        let mut rest = printed.trim();
        let expected = self.expected.trim();
        let mut parts = expected.split(ANYTHING);
        let first = parts.next().unwrap_or_default();
        let Some(behind) = rest.strip_prefix(first) else {
            return false;
        };
        rest = behind;
        for part in parts {
            match rest.split_once(part) {
                Some((_, behind)) => rest = behind,
                None => return false,
            }
        }
        expected.ends_with(ANYTHING) || rest.is_empty()
    }

    /// Whether it only looks, so that it can be looked again until it is so.
    fn only_looks(&self) -> bool {
        self.command.starts_with("admin \"$A/")
    }
}

/// A shell that is told one command after the other.
struct Shell {
    child: Child,
    stdout: BufReader<ChildStdout>,
}

impl Shell {
    fn start() -> Self {
        let mut child = Command::new("bash")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        Self { child, stdout }
    }

    fn run(&mut self, command: &str) -> String {
        let stdin = self.child.stdin.as_mut().unwrap();
        writeln!(stdin, "{command}\necho '{END}'").unwrap();
        let mut printed = String::new();
        while !printed.ends_with(&format!("{END}\n")) {
            let read = self.stdout.read_line(&mut printed).unwrap();
            assert!(read > 0, "the shell has ended:\n{printed}");
        }
        printed.truncate(printed.len() - END.len() - 1);
        printed
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn what_the_document_says_is_what_happens() {
    let demo = Demo::start();
    let folder = Folder::new();
    let config = fs::read_to_string(example("outbound-gateway.yaml")).unwrap();
    let config = config.replace("http://127.0.0.1:9000", &demo.url);
    let file = folder.write("outbound-gateway.yaml", &config);
    let mut serve = tollward();
    serve.env("TOLLWARD_ADMIN_TOKEN", "change-me");
    serve.args(["serve", "--gateway", "127.0.0.1:0", "--config", arg(&file)]);
    let process = Process::start(&mut serve);
    let said = process.output();
    let gateway = said.lines().find_map(|line| line.strip_prefix("  gateway"));
    let (_, gateway) = gateway.unwrap().split_once("://").unwrap();

    let steps = steps();
    assert!(steps.len() > 15, "{steps:?}");
    let mut shell = Shell::start();
    for step in &steps {
        let command = step
            .command
            .replace("127.0.0.1:8082", &process.admin.to_string())
            .replace("127.0.0.1:8080", gateway.trim_end_matches('/'));
        let mut printed = shell.run(&command);
        if step.only_looks() {
            until(&command, || {
                let is_met = step.is_met_by(&printed);
                if !is_met {
                    printed = shell.run(&command);
                }
                is_met
            });
        }
        assert!(
            step.is_met_by(&printed),
            "$ {command}\nis to print\n{}\nbut prints\n{printed}",
            step.expected
        );
    }
}

#[test]
fn the_document_is_compared_as_a_reader_would() {
    let step = |expected: &str| Step {
        command: String::new(),
        expected: expected.to_owned(),
    };
    assert!(step("").is_met_by("\n"));
    assert!(step("a…c").is_met_by("abbc"));
    assert!(step("…c…").is_met_by("abcd"));
    for (expected, printed) in [("", "a"), ("a…c", "abcd"), ("a…c", "xac"), ("a…b…c", "acb")]
    {
        assert!(!step(expected).is_met_by(printed), "{expected} {printed}");
    }
}
