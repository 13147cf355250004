#include "corrupt/judge.h"

#include <utility>
#include <vector>

#include "support/feed.h"

#include "espalier/foreign/any_opener.h"
#include "espalier/foreign/safetensors/carried_tree.h"
#include "espalier/read/fetch.h"
#include "espalier/read/to_value.h"
#include "espalier/read/verify.h"

namespace espalier::testing {
namespace {

template <class Machine>
Result<void> feed(Machine& machine, ByteSpan file, std::uint64_t step) {
  if (step > 0) return feed_steps(machine, file, step);
  return machine.needs().empty() ? Result<void>() : feed_whole(machine, file);
}

Result<Checkpoint> open(ByteSpan file, const Limits& limits, std::uint64_t step) {
  AnyOpener opener({.file_size = file.size(), .limits = limits});
  if (auto ok = feed(opener, file, step); !ok) return propagate(ok);
  return opener.finish();
}

Result<TensorData> read(const TensorRef& tensor, ByteSpan file, std::uint64_t step) {
  auto plan = ReadPlan::make(tensor);
  if (!plan) return propagate(plan);
  std::vector<std::byte> bytes(static_cast<std::size_t>(plan->bytes()));
  Fetch fetch(std::move(*plan), bytes);
  if (auto ok = feed(fetch, file, step); !ok) return propagate(ok);
  if (auto ok = fetch.finish(); !ok) return propagate(ok);
  return TensorData::owned(std::move(bytes));
}

Result<Value> load(const NodeRef& root, ByteSpan file, std::uint64_t step) {
  return to_value(root, [&](const TensorRef& tensor) { return read(tensor, file, step); });
}

Result<VerifyReport> verify(const Checkpoint& checkpoint, ByteSpan file, std::uint64_t step) {
  Verify verify(checkpoint);
  if (auto ok = feed(verify, file, step); !ok) return propagate(ok);
  return verify.finish();
}

}  // namespace

std::optional<Verdict> judge(ByteSpan file, const Limits& limits, std::uint64_t step) {
  auto checkpoint = open(file, limits, step);
  if (!checkpoint) return Verdict{"open", std::move(checkpoint.error())};
  auto report = verify(*checkpoint, file, step);
  if (!report) return Verdict{"verify", std::move(report.error())};
  auto state = load(checkpoint->state(), file, step);
  if (!report->errors.empty()) {
    return Verdict{"verify", std::move(report->errors.front()), state.has_value()};
  }
  if (!state) return Verdict{"read", std::move(state.error())};
  auto metadata = load(checkpoint->metadata(), file, step);
  if (!metadata) return Verdict{"read", std::move(metadata.error())};
  if (checkpoint->catalog().format() != FileFormat::kSafetensors) return std::nullopt;
  auto restored = restore_carried(*state, *metadata, limits);
  if (!restored) return Verdict{"restore", std::move(restored.error())};
  return std::nullopt;
}

}  // namespace espalier::testing
