// How long save_async() blocks its caller, beside memcpy of the same state.
#include "espalier/save_async.h"

#include <cstring>
#include <memory>
#include <vector>

#include "command.h"
#include "report.h"
#include "tensors.h"

namespace espalier::bench {
namespace {

// One thread copies all tensors to `out`.
void copy_all(const Value& state, std::byte* out) {
  for (const Value& child : state.children()) {
    const ByteSpan bytes = *child.as_tensor()->data.memory();
    std::memcpy(out, bytes.data(), bytes.size());
    out += bytes.size();
  }
}

std::uint64_t blocked_ns(const Options& options, const Value& state, Snapshot snapshot) {
  const auto start = Clock::now();
  const AsyncSave saving = espalier::save_async(options.file, state, snapshot,
                                                {.sync = false, .threads = options.threads});
  const std::uint64_t blocked = nanoseconds_since(start);
  must(saving.wait());
  return blocked;
}

}  // namespace

void save_async(const Options& options) {
  const Value state = flat_state(options.tensors, options.bytes);
  Samples fresh_ns, again_ns, copy_ns, borrow_ns;
  for (std::uint64_t i = 0; i < options.repeat; ++i) {
    auto start = Clock::now();
    // As a program would take a copy, without zeroing it first.
    const std::unique_ptr<std::byte[]> copy(new std::byte[options.bytes]);
    copy_all(state, copy.get());
    fresh_ns.push_back(nanoseconds_since(start));
    start = Clock::now();
    copy_all(state, copy.get());
    again_ns.push_back(nanoseconds_since(start));
    copy_ns.push_back(blocked_ns(options, state, Snapshot::kCopy));
    borrow_ns.push_back(blocked_ns(options, state, Snapshot::kBorrow));
  }
  Report("save_async", options.file)
      .with("threads", options.threads)
      .with("bytes", options.bytes)
      .with("memcpy_new_memory_ns", fresh_ns)
      .with("memcpy_used_memory_ns", again_ns)
      .with("blocked_copy_ns", copy_ns)
      .with("blocked_borrow_ns", borrow_ns)
      .print();
}

}  // namespace espalier::bench
