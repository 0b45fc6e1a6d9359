//! The binary `tollward`.

/// A request through the gateway allocates some thirty times, and most of that on one thread.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    tollward_server::run()
}
