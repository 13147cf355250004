#include "espalier/foreign/torch/pickle_opener.h"

#include <algorithm>
#include <functional>
#include <string>
#include <utility>

#include "espalier/base/ascii.h"
#include "espalier/base/counted.h"
#include "espalier/detail/catalog.h"
#include "espalier/foreign/torch/format.h"
#include "espalier/foreign/torch/pickle_checkpoint.h"
#include "espalier/foreign/torch/pickle_rest.h"
#include "espalier/foreign/torch/torch_tree.h"
#include "espalier/format/file_set.h"
#include "espalier/format/foreign_parts.h"
#include "espalier/read/opening_machine.h"

namespace espalier {
namespace {

constexpr std::uint64_t kGrowth = 8;
constexpr std::size_t kCountBytes = 8;

class FileStorages final : public TorchStorages {
 public:
  FileStorages(const LegacyFile* file, ByteSpan pickles, FileSet& files, KeptBytes& kept)
      : file_(file), pickles_(pickles), files_(files), kept_(kept) {}

  Result<TorchStorage> find(std::string_view key) override {
    const LegacyStorage* const found = file_ == nullptr ? nullptr : file_->find(key);
    if (found != nullptr) return TorchStorage{0, found->data_offset(), found->length()};
    return fail(ErrorCode::kForeignInvalid,
                "storage " + std::string(key) + " is not in the file; the file is incomplete");
  }

  Result<TorchStorage> keep(ByteSpan bytes) override {
    const std::less_equal<> is_before;
    if (is_before(pickles_.data(), bytes.data()) &&
        is_before(bytes.data() + bytes.size(), pickles_.data() + pickles_.size())) {
      return TorchStorage{0, static_cast<std::uint64_t>(bytes.data() - pickles_.data()),
                          bytes.size()};
    }
    const auto place = kept_.keep(files_, bytes);
    if (!place) return propagate(place);
    return TorchStorage{place->file, place->offset, bytes.size()};
  }

 private:
  const LegacyFile* file_;
  ByteSpan pickles_;
  FileSet& files_;
  KeptBytes& kept_;
};

// torch.load() takes a file for its format from before 0.1.10, a tar archive, if the first 512
// bytes are the header of one, and these may begin like a pickle. An attacker's file would be a
// harmless pickle here, and what runs there. What tells is the sum of the bytes, in octal digits
// or, after a first byte of 0x80 or 0xFF, as a number; Python takes it of signed bytes, too.
bool is_tar_header(ByteSpan front) {
  constexpr std::size_t kHeader = 512;
  constexpr std::size_t kField = 148;
  constexpr std::size_t kFieldBytes = 8;
  if (front.size() < kHeader) return false;
  std::int64_t plain = 0;
  std::int64_t of_signed = 0;
  for (std::size_t i = 0; i < kHeader; ++i) {
    const bool is_field = i >= kField && i < kField + kFieldBytes;
    const std::uint8_t byte = is_field ? ' ' : std::to_integer<std::uint8_t>(front[i]);
    plain += byte;
    of_signed += static_cast<std::int8_t>(byte);
  }
  std::int64_t octal = 0;
  std::int64_t number = 0;
  for (std::size_t i = 0; i < kFieldBytes; ++i) {
    const auto byte = std::to_integer<std::uint8_t>(front[kField + i]);
    if (byte >= '0' && byte <= '7') octal = octal * 8 + (byte - '0');
    // Its low bytes: a sum is less than 2^17.
    if (i >= kFieldBytes - 3) number = number << 8 | byte;
  }
  const auto is_sum = [&](std::int64_t sum) { return sum == plain || sum == of_signed; };
  return is_sum(octal) || is_sum(number) || is_sum(number - (std::int64_t{1} << 24));
}

// "c<module>\n<name>\n", or the same with an i. Then a pickle goes on with another opcode.
bool is_named_class(std::string_view text) {
  if (!text.starts_with('c') && !text.starts_with('i')) return false;
  text.remove_prefix(1);
  for (int line = 0; line < 2; ++line) {
    const std::size_t end = text.substr(0, 256).find('\n');
    if (end == text.npos || end == 0 || is_digit(text[0])) return false;
    const bool is_name =
        std::all_of(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(end),
                    [](char c) { return is_letter(c) || is_digit(c) || c == '_' || c == '.'; });
    if (!is_name) return false;
    text.remove_prefix(end + 1);
  }
  constexpr std::string_view kNext = "()]}pq.cNo0";
  return !text.empty() && kNext.find(text[0]) != kNext.npos;
}

// Protocols 0 and 1 have no magic. As wasm/src/core/choose.ts has it.
bool looks_like_old_pickle(std::string_view text) {
  constexpr std::string_view kBegins[] = {"(dp", "(lp", "(S'", std::string_view("}q\0", 3),
                                          std::string_view("]q\0", 3)};
  for (const std::string_view begin : kBegins) {
    if (text.starts_with(begin)) return true;
  }
  return is_named_class(text) || (text.starts_with('(') && is_named_class(text.substr(1)));
}

}  // namespace

bool looks_like_pickle(ByteSpan front, std::uint64_t) {
  const bool has_magic = front.size() >= 2 && front[0] == std::byte{0x80} &&
                         front[1] >= std::byte{2} && front[1] <= std::byte{5};
  return has_magic || looks_like_old_pickle(as_text(front));
}

PickleOpener::PickleOpener(const OpenOptions& options) : StepOpener(options) {}

Result<void> PickleOpener::want_more() {
  const std::uint64_t most = std::min(options().file_size, options().limits.pickle_bytes);
  const std::uint64_t have = pickles_.size();
  if (have >= most) {
    return fail(ErrorCode::kLimitExceeded,
                "the pickle has more than the " + counted(options().limits.pickle_bytes, "byte") +
                    " that Limits::pickle_bytes allows; save its values with espalier.save()",
                have);
  }
  const std::uint64_t length = std::min(most, have * kGrowth) - have;
  pickles_.resize(static_cast<std::size_t>(have + length));
  want({0, have, length}, MutableByteSpan(pickles_).subspan(static_cast<std::size_t>(have)));
  return {};
}

Result<void> PickleOpener::parse_legacy_file() {
  auto parsed = parse_legacy(pickles_, options().file_size, 0);
  if (!parsed && parsed.error().code == ErrorCode::kIncomplete) return want_more();
  if (!parsed) return propagate(parsed);
  legacy_ = std::move(*parsed);
  counts_.resize(legacy_->storages.size() * kCountBytes);
  for (std::size_t i = 0; i < legacy_->storages.size(); ++i) {
    want({0, legacy_->storages[i].offset, kCountBytes},
         MutableByteSpan(counts_).subspan(i * kCountBytes, kCountBytes));
  }
  return {};
}

Result<void> PickleOpener::parse_plain() {
  auto graph = run_pickle(pickles_, 0);
  if (!graph && graph.error().code == ErrorCode::kTruncated &&
      pickles_.size() < options().file_size) {
    return want_more();
  }
  if (!graph) {
    const PickleGraph begun = begun_pickle(pickles_);
    if (is_of_joblib(begun)) return fail(ErrorCode::kUnsupportedFeature, kJoblib, 0);
    add_code(graph.error(), begun);
    return propagate(graph);
  }
  if (graph->size() != options().file_size) {
    const auto begin = static_cast<std::size_t>(graph->size());
    return fail(ErrorCode::kTrailingBytes,
                "the file goes on for " + counted(options().file_size - begin, "byte") +
                    " after its pickle" + describe_rest(ByteSpan(pickles_).subspan(begin)),
                begin);
  }
  plain_ = std::move(*graph);
  return {};
}

Result<void> PickleOpener::step() {
  if (legacy_) {
    for (std::size_t i = 0; i < legacy_->storages.size(); ++i) {
      auto ok = check_legacy_count(legacy_->storages[i],
                                   ByteSpan(counts_).subspan(i * kCountBytes, kCountBytes),
                                   legacy_->is_big_endian, 0);
      if (!ok) return ok;
    }
    return {};
  }
  if (plain_) return {};
  if (pickles_.empty()) {
    if (is_tar_header(front())) {
      return fail(ErrorCode::kForeignInvalid,
                  "the file is both a pickle and a tar archive, and programs take either of them",
                  0);
    }
    const ByteSpan first = front();
    const auto length = std::min<std::uint64_t>(first.size(), options().limits.pickle_bytes);
    pickles_.assign(first.begin(), first.begin() + static_cast<std::ptrdiff_t>(length));
  }
  // By the whole front: a tight limit must not turn one format into another.
  return looks_like_legacy_torch(front()) ? parse_legacy_file() : parse_plain();
}

Result<Checkpoint> PickleOpener::build() {
  ForeignParts parts;
  parts.format = &kTorchFormat;
  FileStorages storages(legacy_ ? &*legacy_ : nullptr, pickles_, files(), kept_);
  auto tables = torch_tables(legacy_ ? legacy_->graph : *plain_, storages,
                             legacy_ && legacy_->is_big_endian, options().limits, parts.notes);
  if (!tables) return propagate(tables);
  parts.tables = std::move(*tables);
  parts.files = std::move(files());
  parts.nest = options().nest;
  auto catalog = Catalog::from_foreign(std::move(parts), options().limits);
  if (!catalog) return propagate(catalog);
  return Checkpoint(std::move(*catalog));
}

}  // namespace espalier
