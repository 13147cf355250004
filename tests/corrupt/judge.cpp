#include "corrupt/judge.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "support/feed.h"

#include "espalier/foreign/any_opener.h"
#include "espalier/foreign/checksum_plan.h"
#include "espalier/foreign/safetensors/carried_tree.h"
#include "espalier/format/all_notes.h"
#include "espalier/format/file_maker.h"
#include "espalier/read/fetch.h"
#include "espalier/read/to_value.h"
#include "espalier/read/verify.h"

namespace espalier::testing {
namespace {

// Feeds a machine that needs bytes of the file alone.
template <class Machine>
Result<void> feed(Machine& machine, ByteSpan file, std::uint64_t step) {
  if (step > 0) return feed_steps(machine, file, step);
  return machine.needs().empty() ? Result<void>() : feed_whole(machine, file);
}

// No file lies beside the one in memory.
Result<void> refuse_wanted(OpeningMachine& opener) {
  while (!opener.wants().empty()) {
    const Result<std::uint64_t> missing = fail(ErrorCode::kFileMissing, "there is no such file");
    if (auto ok = opener.answer(opener.wants().front().number, missing); !ok) return ok;
  }
  return {};
}

Result<Checkpoint> open(ByteSpan file, const OpenOptions& options, std::uint64_t step) {
  AnyOpener opener(options);
  for (;;) {
    if (auto ok = feed(opener, file, step); !ok) return propagate(ok);
    if (auto ok = refuse_wanted(opener); !ok) return propagate(ok);
    if (opener.needs().empty() && opener.wants().empty()) return opener.finish();
  }
}

// The files of a checkpoint: the one in memory, and those that are made of it at the first use.
class Files {
 public:
  Files(const Catalog& catalog, ByteSpan file, const Limits& limits, std::uint64_t step)
      : catalog_(catalog),
        file_(file),
        step_(step),
        left_(limits.made_bytes),
        made_(catalog.files().size()) {}

  Result<ByteSpan> bytes(std::uint32_t number) {
    const FileEntry& entry = catalog_.files()[number];
    if (entry.problem) return tl::unexpected<Error>(*entry.problem);
    if (!entry.maker) return file_;
    auto& made = made_[number];
    if (!made) made = make(entry);
    if (!*made) return propagate(*made);
    return ByteSpan(**made);
  }

  template <class Machine>
  Result<void> feed(Machine& machine) {
    while (!machine.needs().empty()) {
      Extent extent = machine.needs().front();
      const auto from = bytes(extent.file);
      if (!from) return propagate(from);
      if (step_ > 0) extent.length = std::min(extent.length, step_);
      if (auto ok = machine.feed(extent, bytes_at(*from, extent)); !ok) return ok;
    }
    return {};
  }

 private:
  Result<std::vector<std::byte>> make(const FileEntry& entry) {
    if (entry.length > left_) {
      return fail(ErrorCode::kLimitExceeded,
                  "this part of the checkpoint takes " + std::to_string(entry.length) +
                      " bytes once it is unpacked, and Limits::made_bytes leaves " +
                      std::to_string(left_));
    }
    left_ -= entry.length;
    std::vector<std::byte> out(static_cast<std::size_t>(entry.length));
    const auto machine = entry.maker->start(out);
    if (auto ok = testing::feed_steps(*machine, file_, step_ > 0 ? step_ : file_.size()); !ok) {
      return propagate(ok);
    }
    if (auto ok = machine->finish(); !ok) return propagate(ok);
    return out;
  }

  const Catalog& catalog_;
  ByteSpan file_;
  std::uint64_t step_;
  std::uint64_t left_;
  std::vector<std::optional<Result<std::vector<std::byte>>>> made_;
};

Result<TensorData> read(const TensorRef& tensor, Files& files) {
  auto plan = ReadPlan::make(tensor);
  if (!plan) return propagate(plan);
  std::vector<std::byte> bytes(static_cast<std::size_t>(plan->bytes()));
  Fetch fetch(std::move(*plan), bytes);
  if (auto ok = files.feed(fetch); !ok) return propagate(ok);
  if (auto ok = fetch.finish(); !ok) return propagate(ok);
  return TensorData::owned(std::move(bytes));
}

Result<Value> load(const NodeRef& root, Files& files) {
  return to_value(root, [&](const TensorRef& tensor) { return read(tensor, files); });
}

// What a format has in place of hashes, as CheckpointFile::verify() checks it.
Result<VerifyReport> verify_checksums(const Checkpoint& checkpoint, Files& files) {
  const Catalog& catalog = checkpoint.catalog();
  const ChecksumPlan plan(catalog, kFirstReadBytes);
  std::vector<std::uint32_t> crcs;
  for (const Extent& piece : plan.pieces()) {
    const auto from = files.bytes(piece.file);
    if (!from) return propagate(from);
    crcs.push_back(ChecksumPlan::crc(bytes_at(*from, piece)));
  }
  std::vector<Damage> damage;
  std::vector<Error> errors;
  plan.compare(crcs, damage, errors);
  for (std::uint32_t number = 0; number < catalog.files().size(); ++number) {
    const FileEntry& entry = catalog.files()[number];
    if (!entry.maker || !entry.maker->has_checksum() || entry.problem) continue;
    auto made = files.bytes(number);
    if (!made) errors.push_back(std::move(made.error()));
  }
  VerifyReport report = VerifyPlan(checkpoint).report(std::move(damage));
  report.error_count += errors.size();
  report.errors.insert(report.errors.end(), errors.begin(), errors.end());
  return report;
}

Result<VerifyReport> verify(const Checkpoint& checkpoint, Files& files) {
  if (!checkpoint.catalog().has_hashes()) return verify_checksums(checkpoint, files);
  Verify verify(checkpoint);
  if (auto ok = files.feed(verify); !ok) return propagate(ok);
  return verify.finish();
}

}  // namespace

Verdict judge(ByteSpan file, const Limits& limits, std::uint64_t step, bool is_remote) {
  auto checkpoint =
      open(file, {.file_size = file.size(), .limits = limits, .is_remote = is_remote}, step);
  if (!checkpoint) return {"open", std::move(checkpoint.error())};
  Files files(checkpoint->catalog(), file, limits, step);
  auto report = verify(*checkpoint, files);
  auto state = load(checkpoint->state(), files);
  auto metadata = load(checkpoint->metadata(), files);
  return judge_contents(*checkpoint, limits, std::move(report), std::move(state),
                        std::move(metadata));
}

Verdict judge_contents(const Checkpoint& checkpoint, const Limits& limits,
                       Result<VerifyReport> report, Result<Value> state, Result<Value> metadata) {
  if (!report) return {"verify", std::move(report.error())};
  if (!report->errors.empty()) {
    return {state ? "verify" : "read", std::move(report->errors.front())};
  }
  // Verifying must have found it.
  if (!state) return {"read alone", std::move(state.error())};
  if (!metadata) return {"read alone", std::move(metadata.error())};
  if (checkpoint.catalog().format() == FileFormat::kSafetensors) {
    auto restored = restore_carried(*state, *metadata, limits);
    if (!restored) return {"restore", std::move(restored.error())};
  }
  return {.notes = all_notes(checkpoint.catalog()).listed};
}

}  // namespace espalier::testing
