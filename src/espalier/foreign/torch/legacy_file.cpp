#include "espalier/foreign/torch/legacy_file.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "espalier/base/checked.h"
#include "espalier/base/counted.h"
#include "espalier/base/little_endian.h"
#include "espalier/base/merge_sort.h"
#include "espalier/foreign/torch/pickle_rest.h"
#include "espalier/foreign/torch/torch_types.h"

namespace espalier {
namespace {

// Two pickles: of the number 0x1950a86a20f9469cfc6c, and of the protocol version 1001.
constexpr unsigned char kLegacyMagic[] = {0x80, 0x02, 0x8A, 0x0A, 0x6C, 0xFC, 0x9C,
                                          0x46, 0xF9, 0x20, 0x6A, 0xA8, 0x50, 0x19,
                                          0x2E, 0x80, 0x02, 0x4D, 0xE9, 0x03, 0x2E};

std::optional<std::string_view> plain_text(const PickleGraph& graph, PickleRef ref) {
  if (!ref.is_literal()) return std::nullopt;
  const PickleLiteral literal = graph.literal(ref);
  const bool is_text = literal.type == PickleType::kText || literal.type == PickleType::kOldText;
  if (!is_text || literal.is_escaped) return std::nullopt;
  return as_text(literal.bytes);
}

std::optional<std::uint64_t> count_of(const PickleGraph& graph, PickleRef ref) {
  if (!ref.is_literal()) return std::nullopt;
  const PickleLiteral literal = graph.literal(ref);
  if (literal.type != PickleType::kInt || literal.integer < 0) return std::nullopt;
  return static_cast<std::uint64_t>(literal.integer);
}

class LegacyParser {
 public:
  LegacyParser(ByteSpan front, std::uint64_t file_bytes, std::uint64_t base)
      : front_(front), file_bytes_(file_bytes), base_(base) {}

  Result<LegacyFile> run() {
    // A tight limit may have cut the magic.
    at_ = std::min(sizeof kLegacyMagic, front_.size());
    auto system = next();
    if (!system) return propagate(system);
    auto object = next();
    if (!object) return propagate(object);
    auto keys = next();
    if (!keys) return propagate(keys);
    if (system->names_something() || keys->names_something()) {
      return bad(
          "a pickle beside the object holds calls or classes, where PyTorch writes plain values");
    }
    LegacyFile file{std::move(*object), is_big_endian(*system), {}, {}};
    if (auto ok = list_storages(*keys, file); !ok) return propagate(ok);
    if (auto ok = measure_storages(file); !ok) return propagate(ok);
    if (auto ok = lay_out(file); !ok) return propagate(ok);
    return file;
  }

 private:
  Result<PickleGraph> next() {
    auto graph = run_pickle(front_.subspan(at_), base_ + at_);
    if (graph) {
      at_ += static_cast<std::size_t>(graph->size());
    } else if (graph.error().code == ErrorCode::kTruncated && front_.size() < file_bytes_) {
      graph.error().code = ErrorCode::kIncomplete;
    } else {
      add_code(graph.error(), begun_pickle(front_.subspan(at_)));
    }
    return graph;
  }

  tl::unexpected<Error> bad(std::string_view message) const {
    return fail(ErrorCode::kForeignInvalid, message, base_ + at_);
  }

  static bool is_big_endian(const PickleGraph& system) {
    if (system.type(system.root()) != PickleType::kDict) return false;
    std::vector<PickleRef> items;
    system.elements(system.root(), items);
    for (std::size_t i = 0; i < items.size(); i += 2) {
      if (plain_text(system, items[i]) != "little_endian" || !items[i + 1].is_literal()) continue;
      return system.literal(items[i + 1]).integer == 0;
    }
    return false;
  }

  Result<void> list_storages(const PickleGraph& keys, LegacyFile& file) {
    if (keys.type(keys.root()) != PickleType::kList) {
      return bad("the list of storages is no list");
    }
    std::vector<PickleRef> names;
    keys.elements(keys.root(), names);
    for (const PickleRef name : names) {
      const auto key = plain_text(keys, name);
      if (!key) return bad("the key of a storage is no text");
      file.storages.push_back({.key = *key});
    }
    file.sorted.resize(file.storages.size());
    std::iota(file.sorted.begin(), file.sorted.end(), 0u);
    sort_numbers(file.sorted, [&](std::uint32_t a, std::uint32_t b) {
      return file.storages[a].key < file.storages[b].key;
    });
    for (std::size_t i = 1; i < file.sorted.size(); ++i) {
      if (file.storages[file.sorted[i]].key == file.storages[file.sorted[i - 1]].key) {
        return bad("the list of storages names one twice");
      }
    }
    return {};
  }

  // How many elements of which size each has stands only where the object refers to it.
  Result<void> measure_storages(LegacyFile& file) {
    const PickleGraph& graph = file.graph;
    std::vector<PickleRef> parts;
    for (std::uint32_t i = 0; i < graph.object_count(); ++i) {
      const PickleRef ref = PickleRef::object(i);
      if (graph.type(ref) != PickleType::kPersistent) continue;
      const PickleRef id = graph.persistent_id(ref);
      if (id.is_literal() || graph.type(id) != PickleType::kTuple) continue;
      parts.clear();
      graph.elements(id, parts);
      if (parts.size() < 5 || plain_text(graph, parts[0]) != "storage") continue;
      const auto key = plain_text(graph, parts[2]);
      const LegacyStorage* const named = key ? file.find(*key) : nullptr;
      // One on the device "meta" has no bytes.
      if (named == nullptr) continue;
      LegacyStorage& storage =
          file.storages[static_cast<std::size_t>(named - file.storages.data())];
      const auto numel = count_of(graph, parts[4]);
      const auto width = storage_width(graph, parts[1]);
      if (!numel || !width) return bad("a storage has no size, or a type that is unknown");
      if (storage.width != 0 && (storage.width != *width || storage.numel != *numel)) {
        return bad("one storage is described in two ways");
      }
      storage.numel = *numel;
      storage.width = *width;
    }
    return {};
  }

  Result<void> lay_out(LegacyFile& file) {
    std::uint64_t at = at_;
    for (LegacyStorage& storage : file.storages) {
      if (storage.width == 0) {
        return bad("storage " + std::string(storage.key) +
                   " is named by no tensor, so its size is "
                   "unknown");
      }
      const auto bytes = checked_mul(storage.numel, storage.width);
      const auto counted_bytes = bytes ? checked_add(*bytes, 8) : std::nullopt;
      if (!counted_bytes || !range_fits(at, *counted_bytes, file_bytes_)) {
        return fail(ErrorCode::kTruncated,
                    "the file ends before the end of storage " + std::string(storage.key) +
                        "; copy or download it again",
                    base_ + at);
      }
      storage.offset = at;
      at += *counted_bytes;
    }
    if (at == file_bytes_) return {};
    const ByteSpan rest =
        at < front_.size() ? front_.subspan(static_cast<std::size_t>(at)) : ByteSpan();
    return fail(ErrorCode::kTrailingBytes,
                "the file goes on for " + counted(file_bytes_ - at, "byte") +
                    " after its last storage" + describe_rest(rest),
                base_ + at);
  }

  ByteSpan front_;
  std::uint64_t file_bytes_;
  std::uint64_t base_;
  std::size_t at_ = 0;
};

}  // namespace

bool looks_like_legacy_torch(ByteSpan bytes) {
  return bytes.size() >= sizeof kLegacyMagic &&
         std::equal(std::begin(kLegacyMagic), std::end(kLegacyMagic), bytes.begin(),
                    [](unsigned char a, std::byte b) { return a == std::to_integer<int>(b); });
}

const LegacyStorage* LegacyFile::find(std::string_view key) const {
  const auto found = std::lower_bound(
      sorted.begin(), sorted.end(), key,
      [&](std::uint32_t number, std::string_view name) { return storages[number].key < name; });
  if (found == sorted.end() || storages[*found].key != key) return nullptr;
  return &storages[*found];
}

Result<LegacyFile> parse_legacy(ByteSpan front, std::uint64_t file_bytes, std::uint64_t base) {
  return LegacyParser(front, file_bytes, base).run();
}

Result<void> check_legacy_count(const LegacyStorage& storage, ByteSpan count, bool is_big_endian,
                                std::uint64_t base) {
  auto number = load_le<std::uint64_t>(count.data());
  if (is_big_endian) number = __builtin_bswap64(number);
  if (number == storage.numel) return {};
  return fail(ErrorCode::kForeignInvalid,
              "storage " + std::string(storage.key) + " has " + counted(number, "element") +
                  " and the pickle says " + std::to_string(storage.numel),
              base + storage.offset);
}

}  // namespace espalier
