// The machine of core-of-two-files.wasm, which only tests load. Its format is an Espalier file that
// was cut at the beginning of a tensor: tensors from there on lie in a second file, which the
// metadata name under "second". If they have a "transposed", there are no hashes, the numbers of
// the first tensor are in another byte order, and the last one, a square, is stored transposed too.
// "notes" is a list of notes, each a list of kind, path and message.
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "../../../tests/support/tables_copy.h"
#include "opening_machine.h"

#include "espalier/foreign/safetensors/format.h"
#include "espalier/format/file_set.h"
#include "espalier/format/foreign_parts.h"
#include "espalier/format/header.h"
#include "espalier/format/owned_tables.h"
#include "espalier/read/opener.h"
#include "espalier/read/opening_machine.h"

namespace espalier::abi {
namespace {

Notes notes_of(const NodeRef& metadata) {
  Notes notes;
  const auto list = metadata.at("notes");
  if (!list) return notes;
  for (std::uint32_t i = 0; i < list->size(); ++i) {
    const auto text = [note = list->child(i)](std::uint32_t part) {
      return std::string(*note.child(part).as_string());
    };
    const std::string kind = text(0);
    notes.add({kind == "loss"   ? Note::Kind::kLoss
               : kind == "code" ? Note::Kind::kCode
                                : Note::Kind::kWarning,
               text(1), text(2)});
  }
  return notes;
}

class TwoFileMachine : public OpeningMachine {
 public:
  explicit TwoFileMachine(const OpenOptions& options) : options_(options) {}

  const WantedFiles* wanted_files() const override { return &wanted_; }

  Result<void> answer(std::uint32_t number, const Result<std::uint64_t>& size) override {
    if (auto ok = wanted_.take_answer(number); !ok) return ok;
    FileEntry& second = files_[1];
    if (!size) {
      second.problem = size.error();
    } else if (*size != second.length) {
      second.problem = Error{ErrorCode::kTruncated, *size, {}, "it is cut short", second.name};
    }
    return {};
  }

  std::span<const espalier::Extent> needs() const override {
    if (!opener_) return {&kHeader, 1};
    return whole_ ? std::span<const espalier::Extent>() : opener_->needs();
  }

  Result<void> feed(const espalier::Extent& extent, ByteSpan bytes) override {
    if (!opener_) {
      const auto header = decode_header(bytes, options_.limits, ~std::uint64_t{0});
      if (!header) return propagate(header);
      OpenOptions of_whole = options_;
      of_whole.file_size = header->file_length;
      of_whole.nest = false;
      opener_.emplace(of_whole);
      return {};
    }
    auto fed = opener_->feed(extent, bytes);
    if (!fed || !opener_->needs().empty()) return fed;
    auto whole = opener_->finish();
    if (!whole) return propagate(whole);
    whole_ = std::move(*whole);
    const auto name = whole_->metadata().at("second");
    if (!name) return propagate(name);
    const std::string second(*name->as_string());
    if (auto ok = wanted_.want({second}); !ok) return ok;
    files_.push_back({.length = options_.file_size});
    files_.push_back(
        {.name = second, .length = whole_->catalog().file_length() - options_.file_size});
    return {};
  }

  Result<Checkpoint> finish() override {
    const Catalog& whole = whole_->catalog();
    OwnedTables tables = testing::copy_of(whole.tables());
    for (ChunkRecord& chunk : tables.chunks) {
      if (chunk.offset < options_.file_size) continue;
      chunk.file = 1;
      chunk.offset -= options_.file_size;
    }
    if (whole_->metadata().at("transposed")) {
      const auto tensor = static_cast<std::uint32_t>(tables.tensors.size()) - 1;
      const std::uint64_t side = whole_->tensor(tensor).shape()[0];
      tables.storages = {
          {.tensor = 0, .flags = kStorageSwapped},
          {.tensor = tensor, .flags = kStorageStrided | kStorageSwapped, .elements = side * side}};
      tables.strides = {1, side};
    }
    const bool is_foreign = !tables.storages.empty();
    auto catalog =
        Catalog::from_foreign({.format = &kSafetensorsFormat,
                               .tables = std::move(tables),
                               .files = std::move(files_),
                               .tree_digest = is_foreign ? std::nullopt : whole.tree_digest(),
                               .notes = notes_of(whole_->metadata()),
                               .nest = options_.nest},
                              options_.limits);
    if (!catalog) return propagate(catalog);
    return Checkpoint(std::move(*catalog));
  }

 private:
  static constexpr espalier::Extent kHeader = {0, 0, kHeaderBytes};

  OpenOptions options_;
  std::optional<Opener> opener_;
  std::optional<Checkpoint> whole_;
  FileSet files_;
  WantedFiles wanted_{Limits()};
};

}  // namespace

std::unique_ptr<OpeningMachine> make_opening_machine(const OpenOptions& options) {
  return std::make_unique<TwoFileMachine>(options);
}

}  // namespace espalier::abi
