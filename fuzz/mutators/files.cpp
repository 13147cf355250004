#include <algorithm>
#include <cstring>
#include <iterator>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "mutators/mutator.h"

#include "espalier/base/arena.h"
#include "espalier/base/little_endian.h"
#include "espalier/codec/hash.h"
#include "espalier/foreign/tensorflow/bundle.h"
#include "espalier/format/header.h"
#include "espalier/format/index.h"

namespace espalier::fuzz {
namespace {

std::vector<Bytes> split(const Bytes& input) {
  std::vector<Bytes> files;
  auto begin = input.begin();
  for (;;) {
    const auto end = std::search(begin, input.end(), kBetweenFiles.begin(), kBetweenFiles.end());
    files.emplace_back(begin, end);
    if (end == input.end()) return files;
    begin = end + static_cast<std::ptrdiff_t>(kBetweenFiles.size());
  }
}

Bytes join(const std::vector<Bytes>& files) {
  Bytes joined;
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (i > 0) joined.insert(joined.end(), kBetweenFiles.begin(), kBetweenFiles.end());
    joined.insert(joined.end(), files[i].begin(), files[i].end());
  }
  return joined;
}

bool is_checkpoint(const Bytes& file) {
  return file.size() >= kHeaderBytes && has_magic(view(file));
}

// Lets the first file tell the lengths and heads of the others as they are.
void mend_references(std::vector<Bytes>& files) {
  Bytes& first = files.front();
  const auto header = decode_header(view(first), {}, first.size());
  if (!header) return;
  const auto length = static_cast<std::size_t>(header->index_length);
  auto arena = Arena::allocate(length);
  if (!arena || first.size() < kHeaderBytes + length) return;
  std::uint8_t* index = first.data() + kHeaderBytes;
  std::memcpy(arena->bytes().data(), index, length);
  const auto minor = load_le<std::uint16_t>(view(first).data() + 10);
  const auto tables = decode_index(arena->bytes(), 0, minor);
  if (!tables) return;
  for (std::size_t i = 0; i < tables->files.size() && i + 1 < files.size(); ++i) {
    const Bytes& other = files[i + 1];
    // The record is in our own arena.
    auto& record = const_cast<FileRecord&>(tables->files[i]);
    record.length = other.size();
    if (record.head > other.size()) continue;
    record.head_hash = hash128(view(std::span(other).first(record.head)));
  }
  std::memcpy(index, arena->bytes().data(), length);
  mend(first, length);
}

}  // namespace

Bytes mutate_files(const Bytes& input, std::size_t most, testing::Random& random,
                   const MutateBytes& mutate) {
  std::vector<Bytes> files = split(input);
  if (most < input.size() || files.size() == 1 || random.one_in(8)) {
    return mutate_anything(input, most, mutate);
  }
  const std::size_t spare = most - input.size();
  if (looks_like_tensorflow(view(files[0]), files[0].size()) && !random.one_in(4) &&
      mutate_tensorflow(files, spare, random, mutate)) {
    Bytes joined = join(files);
    joined.resize(std::min(joined.size(), most));
    return joined;
  }
  Bytes& chosen = files[random.below(files.size())];
  chosen = is_checkpoint(chosen) ? mutate_checkpoint(chosen, chosen.size() + spare, random, mutate)
                                 : mutate_anything(chosen, chosen.size() + spare, mutate);
  if (random.one_in(16)) std::swap(files[random.below(files.size())], files.back());
  if (is_checkpoint(files.front()) && !random.one_in(4)) mend_references(files);
  return join(files);
}

}  // namespace espalier::fuzz
