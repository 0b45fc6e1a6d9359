//! The binary `tollgate`.

/// A request through the gateway allocates some thirty times, and most of that on one thread.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    tollgate_server::run()
}
