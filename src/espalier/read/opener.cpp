#include "espalier/read/opener.h"

#include <algorithm>
#include <string>
#include <utility>

#include "espalier/detail/catalog.h"
#include "espalier/format/features.h"
#include "espalier/format/file_set.h"
#include "espalier/format/file_table.h"
#include "espalier/format/index.h"
#include "espalier/read/opening_machine.h"

namespace espalier {
namespace {

// Features that this build can read.
constexpr std::uint64_t kKnownFeatures = kFeatureZstd | kFeaturePlanes | kFeaturesOf11;

}  // namespace

Opener::Opener(const OpenOptions& options) : StepOpener(options) {}

// A step that wants nothing would be the last one, so each goes on to the next.
Result<void> Opener::step() {
  switch (next_) {
    case Step::kFront:
      next_ = Step::kIndex;
      if (auto ok = read_front(); !ok || header_.index_end() > front().size()) return ok;
      [[fallthrough]];
    case Step::kIndex:
      next_ = Step::kHeads;
      if (auto ok = read_index(); !ok || !tables_.files.empty()) return ok;
      [[fallthrough]];
    case Step::kHeads:
      next_ = Step::kCheck;
      want_heads();
      return {};
    case Step::kCheck:
      check_heads();
      return {};
  }
  return {};
}

Result<void> Opener::read_front() {
  auto header = decode_header(front(), options().limits, kKnownFeatures);
  if (!header) return propagate(header);
  if (auto ok = check_file_length(*header, options().file_size); !ok) return ok;
  header_ = *header;
  auto arena = Arena::allocate(header_.index_length, options().allocator);
  if (!arena) return propagate(arena);
  const ByteSpan begun = front().subspan(kHeaderBytes);
  const auto in_front =
      static_cast<std::size_t>(std::min<std::uint64_t>(begun.size(), header_.index_length));
  std::copy_n(begun.begin(), in_front, arena->bytes().begin());
  index_ = std::move(*arena);
  const std::uint64_t rest = header_.index_length - in_front;
  if (rest > 0) want({0, kHeaderBytes + in_front, rest}, index_->bytes().subspan(in_front));
  return {};
}

Result<void> Opener::read_index() {
  const ByteSpan bytes = std::as_const(*index_).bytes();
  auto tables = open_index(header_, bytes);
  if (!tables) return propagate(tables);
  tables_ = *tables;
  files().front().data_begin = header_.index_end();
  if (auto ok = check_file_table(tables_, bytes.data()); !ok) return ok;
  std::vector<std::string> names;
  for (std::size_t i = 1; i <= tables_.files.size(); ++i) {
    names.emplace_back(file_name(tables_, i));
  }
  return want_files(std::move(names));
}

void Opener::want_heads() {
  heads_.resize(files().size());
  for (std::uint32_t i = 1; i < files().size(); ++i) {
    const FileRecord& record = tables_.files[i - 1];
    FileEntry& file = files()[i];
    if (!file.problem && file.length != record.length) file.problem = base_mismatch(tables_, i);
    file.length = record.length;
    if (file.problem) continue;
    heads_[i].resize(record.head);
    want({i, 0, record.head}, heads_[i]);
  }
}

void Opener::check_heads() {
  for (std::size_t i = 1; i < heads_.size(); ++i) {
    std::optional<Error>& problem = files()[i].problem;
    if (!problem && is_other_file(tables_.files[i - 1], heads_[i])) {
      problem = base_mismatch(tables_, i);
    }
  }
  heads_.clear();
}

Result<Checkpoint> Opener::build() {
  auto catalog = Catalog::from_index(header_, std::move(*index_), tables_, std::move(files()),
                                     options().limits, options().nest);
  if (!catalog) return propagate(catalog);
  return Checkpoint(std::move(*catalog));
}

}  // namespace espalier
