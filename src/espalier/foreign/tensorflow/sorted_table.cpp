#include "espalier/foreign/tensorflow/sorted_table.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "espalier/base/checked.h"
#include "espalier/base/counted.h"
#include "espalier/base/little_endian.h"
#include "espalier/foreign/common/crc32c.h"
#include "espalier/foreign/common/varint.h"
#include "espalier/foreign/tensorflow/snappy.h"

namespace espalier {
namespace {

constexpr std::uint64_t kTableMagic = 0xDB4775248B80FB57;
constexpr std::size_t kFooterBytes = 48;
constexpr std::size_t kHandlesBytes = 40;
// After each block: its type, and the CRC-32C of both.
constexpr std::size_t kTrailerBytes = 5;

constexpr std::string_view kAgain = "; copy or download it again";

struct Handle {
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
};

std::optional<Handle> read_handle(ByteSpan bytes, std::size_t& at) {
  const auto offset = read_varint(bytes, at);
  const auto size = offset ? read_varint(bytes, at) : std::nullopt;
  if (!size) return std::nullopt;
  return Handle{*offset, *size};
}

}  // namespace

class SortedTableReader {
 public:
  SortedTableReader(ByteSpan file, const Limits& limits) : file_(file), limits_(limits) {}

  Result<SortedTable> run() {
    if (file_.size() < kFooterBytes ||
        load_le<std::uint64_t>(file_.data() + file_.size() - sizeof(kTableMagic)) != kTableMagic) {
      return fail(ErrorCode::kTruncated,
                  "the file does not end as the index of a TensorFlow checkpoint does" +
                      std::string(kAgain),
                  file_.size());
    }
    blocks_ = file_.first(file_.size() - kFooterBytes);
    const ByteSpan handles = file_.subspan(blocks_.size(), kHandlesBytes);
    std::size_t at = 0;
    const auto meta = read_handle(handles, at);
    const auto index = meta ? read_handle(handles, at) : std::nullopt;
    const bool is_padded =
        std::all_of(handles.begin() + static_cast<std::ptrdiff_t>(at), handles.end(),
                    [](std::byte byte) { return byte == std::byte{0}; });
    if (!index || !is_padded) return bad("the end of the file is damaged", blocks_.size());
    if (auto ok = read_meta(*meta); !ok) return propagate(ok);
    if (auto ok = read_index(*index); !ok) return propagate(ok);
    // The pool of keys stays where it is now.
    for (std::size_t i = 0; i < table_.entries_.size(); ++i) {
      const std::size_t begin = i == 0 ? 0 : key_ends_[i - 1];
      table_.entries_[i].key = {table_.keys_.data() + begin, key_ends_[i] - begin};
    }
    return std::move(table_);
  }

 private:
  static tl::unexpected<Error> bad(std::string_view what, std::uint64_t offset) {
    return fail(ErrorCode::kForeignInvalid, std::string(what) + std::string(kAgain), offset);
  }

  Result<void> read_meta(const Handle& handle) {
    auto block = read_block(handle);
    if (!block) return propagate(block);
    return for_each(*block, handle.offset, [&](std::string_view, ByteSpan) -> Result<void> {
      return fail(ErrorCode::kForeignInvalid,
                  "the index has a block of another kind, which TensorFlow does not write",
                  handle.offset);
    });
  }

  Result<void> read_index(const Handle& handle) {
    auto index = read_block(handle);
    if (!index) return propagate(index);
    std::uint64_t end = 0;
    return for_each(*index, handle.offset,
                    [&](std::string_view separator, ByteSpan value) -> Result<void> {
                      std::size_t at = 0;
                      const auto data = read_handle(value, at);
                      if (!data || at != value.size())
                        return bad("a place in the index is damaged", handle.offset);
                      // Stops a block that a million places name.
                      if (data->offset < end)
                        return bad("blocks of the index overlap", data->offset);
                      auto ok = read_data(*data);
                      if (!ok) return ok;
                      end = data->offset + data->size + kTrailerBytes;
                      if (!key_ends_.empty() && separator < last_) {
                        return bad("the index is not sorted", data->offset);
                      }
                      // LevelDB would look for keys below it in this block alone.
                      last_ = separator;
                      return {};
                    });
  }

  Result<void> read_data(const Handle& handle) {
    auto block = read_block(handle);
    if (!block) return propagate(block);
    return for_each(
        *block, handle.offset, [&](std::string_view key, ByteSpan value) -> Result<void> {
          if (!key_ends_.empty() && key <= last_) {
            return bad("the index is not sorted", handle.offset);
          }
          if (key_ends_.size() == limits_.nodes) {
            return fail(ErrorCode::kLimitExceeded, "the index has more than the " +
                                                       counted(limits_.nodes, "key") +
                                                       " that readers accept (Limits::nodes)");
          }
          if (key.size() > limits_.text_bytes - table_.keys_.size()) {
            return fail(ErrorCode::kLimitExceeded, "the keys of the index take more than the " +
                                                       counted(limits_.text_bytes, "byte") +
                                                       " that readers accept (Limits::text_bytes)");
          }
          table_.keys_.insert(table_.keys_.end(), key.begin(), key.end());
          key_ends_.push_back(table_.keys_.size());
          table_.entries_.push_back({{}, value});
          last_ = key;
          return {};
        });
  }

  // The contents of a block, unpacked.
  Result<ByteSpan> read_block(const Handle& handle) {
    if (!range_fits(handle.offset, handle.size, blocks_.size()) ||
        blocks_.size() - handle.offset - handle.size < kTrailerBytes) {
      return bad("a block of the index lies beyond its end", blocks_.size());
    }
    const ByteSpan stored = blocks_.subspan(static_cast<std::size_t>(handle.offset),
                                            static_cast<std::size_t>(handle.size) + 1);
    const std::byte* const crc = stored.data() + stored.size();
    if (crc32c_after(0, stored) != unmask_crc32c(load_le<std::uint32_t>(crc))) {
      return bad("a block of the index does not match its CRC-32C", handle.offset);
    }
    const ByteSpan contents = stored.first(stored.size() - 1);
    switch (std::to_integer<int>(stored.back())) {
      case 0:
        return contents;
      case 1:
        break;
      default:
        return fail(ErrorCode::kForeignInvalid,
                    "a block of the index is compressed with method " +
                        std::to_string(std::to_integer<int>(stored.back())) +
                        ", and snappy (1) is read",
                    handle.offset);
    }
    auto unpacked = unpack_snappy(contents, limits_.foreign_header_bytes - unpacked_bytes_);
    if (!unpacked) {
      unpacked.error().offset = handle.offset;
      return propagate(unpacked);
    }
    unpacked_bytes_ += unpacked->size();
    table_.unpacked_.push_back(std::move(*unpacked));
    return ByteSpan(table_.unpacked_.back());
  }

  template <class Take>
  Result<void> for_each(ByteSpan block, std::uint64_t offset, const Take& take) {
    constexpr std::size_t kNumber = sizeof(std::uint32_t);
    if (block.size() < kNumber) return bad("a block of the index is too short", offset);
    std::size_t end = block.size() - kNumber;
    const auto restarts = load_le<std::uint32_t>(block.data() + end);
    if (restarts > end / kNumber) return bad("a block of the index is too short", offset);
    const std::size_t restarts_begin = end - restarts * kNumber;
    end = restarts_begin;
    const ByteSpan entries = block.first(end);
    std::uint32_t next = 0;  // restart
    std::string key;
    for (std::size_t at = 0; at < end;) {
      const std::size_t begin = at;
      const auto shared = read_varint(entries, at);
      const auto own = shared ? read_varint(entries, at) : std::nullopt;
      const auto length = own ? read_varint(entries, at) : std::nullopt;
      if (!length || *shared > key.size() || *own > end - at || *length > end - at - *own) {
        return bad("an entry of the index is damaged", offset);
      }
      const bool is_restart =
          next < restarts &&
          load_le<std::uint32_t>(block.data() + restarts_begin + next * kNumber) == begin;
      if (is_restart) ++next;
      // Keys before the first restart are lost to those who search.
      if (is_restart ? *shared != 0 : next == 0) {
        return bad("an entry of the index is damaged", offset);
      }
      key.resize(static_cast<std::size_t>(*shared));
      key += as_text(entries.subspan(at, static_cast<std::size_t>(*own)));
      at += static_cast<std::size_t>(*own);
      if (auto ok = take(key, entries.subspan(at, static_cast<std::size_t>(*length))); !ok) {
        return ok;
      }
      at += static_cast<std::size_t>(*length);
    }
    const bool is_empty = end == 0 && restarts <= 1;
    if (next != restarts && !is_empty) return bad("a block of the index is damaged", offset);
    return {};
  }

  ByteSpan file_;
  ByteSpan blocks_;  // without the footer
  const Limits& limits_;
  SortedTable table_;
  std::vector<std::size_t> key_ends_;
  std::string last_;  // key, or the separator behind it
  std::uint64_t unpacked_bytes_ = 0;
};

Result<SortedTable> SortedTable::read(ByteSpan file, const Limits& limits) {
  return SortedTableReader(file, limits).run();
}

bool find_first_value(ByteSpan front, FirstValue& value) {
  const auto read_entry = [&](ByteSpan bytes) {
    std::size_t at = 2;
    if (bytes.size() <= at || bytes[0] != std::byte{0} || bytes[1] != std::byte{0}) return false;
    const auto length = read_varint(bytes, at);
    if (!length) return false;
    value.bytes = bytes.subspan(at);
    if (*length < value.bytes.size()) {
      value.bytes = value.bytes.first(static_cast<std::size_t>(*length));
    }
    value.length = *length;
    return true;
  };
  if (read_entry(front)) return true;
  // The bytes of a packed block begin with its length, and then with a literal.
  std::size_t at = 0;
  if (!read_varint(front, at) || at == front.size()) return false;
  const auto tag = std::to_integer<std::uint32_t>(front[at++]);
  constexpr std::uint32_t kInTag = 60;
  const std::size_t more = tag >> 2 < kInTag ? 0 : (tag >> 2) - kInTag + 1;
  if ((tag & 3) != 0 || front.size() - at <= more) return false;
  return read_entry(front.subspan(at + more));
}

}  // namespace espalier
