#include "corrupt/judge.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "support/feed.h"

#include "espalier/foreign/any_opener.h"
#include "espalier/foreign/safetensors/carried_tree.h"
#include "espalier/foreign/safetensors/format.h"
#include "espalier/foreign/zip/checksum_plan.h"
#include "espalier/format/all_notes.h"
#include "espalier/format/file_maker.h"
#include "espalier/format/file_set.h"
#include "espalier/read/fetch.h"
#include "espalier/read/opening_machine.h"
#include "espalier/read/to_value.h"
#include "espalier/read/verify.h"

namespace espalier::testing {
namespace {

// Tells the opener of a file that it wants.
Result<void> answer(OpeningMachine& opener, const OpenedFolder& folder) {
  const WantedFile wanted = opener.wants().front();
  const auto file = folder.files.find(wanted.name);
  if (file != folder.files.end()) return opener.answer(wanted.number, file->second.size());
  const Result<std::uint64_t> missing = fail(ErrorCode::kFileMissing, "there is no such file");
  return opener.answer(wanted.number, missing);
}

Result<Checkpoint> open(const OpenedFolder& folder, const OpenOptions& options,
                        std::uint64_t step) {
  std::vector<ByteSpan> files = {folder.files.at(folder.name)};
  AnyOpener opener(options);
  while (!opener.wants().empty() || !opener.needs().empty()) {
    Result<void> ok;
    if (!opener.wants().empty()) {
      const auto file = folder.files.find(opener.wants().front().name);
      files.push_back(file != folder.files.end() ? ByteSpan(file->second) : ByteSpan());
      ok = answer(opener, folder);
    } else {
      Extent extent = opener.needs().front();
      if (step > 0) extent.length = std::min(extent.length, step);
      // Everything at once, wanted or not.
      if (step == 0) extent = {extent.file, 0, files[extent.file].size()};
      ok = opener.feed(extent, bytes_at(files[extent.file], extent));
    }
    if (!ok) return propagate(ok);
  }
  return opener.finish();
}

// The files of a checkpoint: those in memory, and those that are made of them at the first use.
class Files {
 public:
  Files(const Catalog& catalog, const OpenedFolder& folder, std::uint64_t step)
      : catalog_(catalog), folder_(folder), step_(step), made_(catalog.files().size()) {}

  Result<ByteSpan> bytes(std::uint32_t number) {
    const FileEntry& entry = catalog_.files()[number];
    if (entry.problem) return tl::unexpected<Error>(*entry.problem);
    if (!entry.maker) return folder_.files.at(number == 0 ? folder_.name : entry.name);
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
    std::vector<std::byte> out(static_cast<std::size_t>(entry.length));
    const auto machine = entry.maker->start(out);
    if (auto ok = feed(*machine); !ok) return propagate(ok);
    if (auto ok = machine->finish(); !ok) return propagate(ok);
    return out;
  }

  const Catalog& catalog_;
  const OpenedFolder& folder_;
  std::uint64_t step_;
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
    crcs.push_back(plan.crc(crcs.size(), bytes_at(*from, piece)));
  }
  std::vector<Damage> damage;
  std::vector<Error> errors;
  plan.compare(crcs, damage, errors);
  for (std::uint32_t number = 0; number < catalog.files().size(); ++number) {
    const FileEntry& entry = catalog.files()[number];
    if (!entry.maker || !entry.maker->finds_damage() || entry.problem) continue;
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

Verdict judge(const OpenedFolder& folder, const Limits& limits, std::uint64_t step,
              bool is_remote) {
  auto checkpoint = open(folder,
                         {.file_size = folder.files.at(folder.name).size(),
                          .limits = limits,
                          .name = folder.name,
                          .is_remote = is_remote},
                         step);
  if (!checkpoint) return {"open", std::move(checkpoint.error())};
  Files files(checkpoint->catalog(), folder, step);
  auto report = verify(*checkpoint, files);
  auto state = load(checkpoint->state(), files);
  auto metadata = load(checkpoint->metadata(), files);
  return judge_contents(*checkpoint, limits, std::move(report), std::move(state),
                        std::move(metadata));
}

Verdict judge_contents(const Checkpoint& checkpoint, const Limits& limits,
                       Result<VerifyReport> report, Result<Value> state, Result<Value> metadata) {
  if (!report) return {"verify", std::move(report.error())};
  // Elements in a form that is not read are no damage.
  const auto damage =
      std::find_if(report->errors.begin(), report->errors.end(),
                   [](const Error& error) { return error.code != ErrorCode::kElementsMissing; });
  if (damage != report->errors.end()) return {state ? "verify" : "read", std::move(*damage)};
  // Verifying must have found it.
  if (!state) return {"read alone", std::move(state.error())};
  if (!metadata) return {"read alone", std::move(metadata.error())};
  if (checkpoint.catalog().format() == kSafetensorsFormat) {
    auto restored = restore_carried(*state, *metadata, limits);
    if (!restored) return {"restore", std::move(restored.error())};
  }
  return {.notes = all_notes(checkpoint.catalog()).listed};
}

}  // namespace espalier::testing
