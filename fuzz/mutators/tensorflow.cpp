#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mutators/mutator.h"

#include "espalier/base/little_endian.h"
#include "espalier/foreign/common/crc32c.h"
#include "espalier/foreign/tensorflow/bundle.h"
#include "espalier/foreign/tensorflow/sorted_table.h"
#include "espalier/foreign/tensorflow/texts.h"

namespace espalier::fuzz {
namespace {

using Entries = std::vector<std::pair<std::string, std::string>>;

std::string varint(std::uint64_t value) {
  std::string made;
  for (; value > 0x7F; value >>= 7) made += static_cast<char>((value & 0x7F) | 0x80);
  return made += static_cast<char>(value);
}

template <class T>
std::string little_endian(T value) {
  std::string made(sizeof(T), '\0');
  store_le(reinterpret_cast<std::byte*>(made.data()), value);
  return made;
}

std::string masked(std::uint32_t crc) {
  return little_endian<std::uint32_t>(((crc >> 15) | (crc << 17)) + 0xA282EAD8u);
}

// Appends a block and gives its handle. No key shares bytes with the one before, so that an entry
// can be changed alone; the reader's own tests have keys that do.
std::string add_block(std::string& file, const Entries& entries) {
  const std::string handle_begin = varint(file.size());
  std::string block;
  for (const auto& [key, value] : entries) {
    block += varint(0) + varint(key.size()) + varint(value.size()) + key + value;
  }
  block += little_endian<std::uint32_t>(0) + little_endian<std::uint32_t>(1);
  const std::size_t size = block.size();
  block += '\0';
  file += block + masked(crc32c_after(0, as_bytes(block)));
  return handle_begin + varint(size);
}

Bytes make_table(const Entries& entries) {
  std::string file;
  const std::string data = add_block(file, entries);
  std::string handles = add_block(file, {});
  handles += add_block(file, {{entries.back().first, data}});
  handles.resize(40);
  file += handles + little_endian<std::uint64_t>(0xDB4775248B80FB57);
  return {file.begin(), file.end()};
}

Bytes bytes_of(std::string_view text) { return {text.begin(), text.end()}; }

void mutate_text(std::string& text, std::size_t spare, const MutateBytes& mutate) {
  const Bytes changed = mutate_anything(bytes_of(text), text.size() + spare, mutate);
  text.assign(changed.begin(), changed.end());
}

// Changes a string without axes, such as the graph, and puts it behind the shard, with both CRCs.
bool mutate_string(const Bundle& bundle, Entries& entries, Bytes& shard, std::size_t spare,
                   testing::Random& random, const MutateBytes& mutate) {
  std::vector<const BundleEntry*> strings;
  for (const BundleEntry& entry : bundle.entries) {
    const bool is_there =
        entry.piece.offset <= shard.size() && entry.piece.size <= shard.size() - entry.piece.offset;
    if (entry.type.storage == TensorFlowType::Storage::kText && entry.rank == 0 && is_there) {
      strings.push_back(&entry);
    }
  }
  if (strings.empty()) return false;
  const BundleEntry& entry = *strings[random.below(strings.size())];
  const ByteSpan stored = view(shard).subspan(static_cast<std::size_t>(entry.piece.offset),
                                              static_cast<std::size_t>(entry.piece.size));
  const auto texts = read_texts(entry, stored);
  if (!texts) return false;
  std::string text(as_text(texts->front()));
  mutate_text(text, spare, mutate);
  std::uint32_t crc =
      crc32c_after(0, as_bytes(little_endian(static_cast<std::uint32_t>(text.size()))));
  const std::string lengths_crc = masked(crc);
  crc = crc32c_after(crc32c_after(crc, as_bytes(lengths_crc)), as_bytes(text));
  const std::string made = varint(text.size()) + lengths_crc + text;
  for (auto& [key, value] : entries) {
    if (key != entry.name) continue;
    value =
        "\x08\x07\x20" + varint(shard.size()) + "\x28" + varint(made.size()) + "\x35" + masked(crc);
  }
  shard.insert(shard.end(), made.begin(), made.end());
  return true;
}

}  // namespace

bool mutate_tensorflow(std::vector<Bytes>& files, std::size_t spare, testing::Random& random,
                       const MutateBytes& mutate) {
  const auto table = SortedTable::read(view(files[0]), {});
  if (!table || table->entries().empty()) return false;
  Entries entries;
  for (const SortedTable::Entry& entry : table->entries()) {
    entries.emplace_back(entry.key, as_text(entry.value));
  }
  const auto bundle = read_bundle(*table);
  const bool is_string = bundle && files.size() > 1 && !random.one_in(3) &&
                         mutate_string(*bundle, entries, files[1], spare, random, mutate);
  if (!is_string) {
    auto& [key, value] = entries[random.below(entries.size())];
    mutate_text(random.one_in(4) ? key : value, spare, mutate);
  }
  if (!random.one_in(8)) std::sort(entries.begin(), entries.end());
  files[0] = make_table(entries);
  return true;
}

}  // namespace espalier::fuzz
