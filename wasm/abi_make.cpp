// The part of abi.h that makes files which a checkpoint has only in another form.
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>

#include "abi.h"
#include "failure.h"
#include "tree_handle.h"

#include "espalier/format/file_maker.h"
#include "espalier/format/file_set.h"

namespace espalier::abi {
namespace {

static_assert(sizeof(MadeFile) == 24 && offsetof(MadeFile, name) == 16);

struct Free {
  void operator()(std::byte* memory) const { std::free(memory); }
};

const FileEntry* made_file(Tree* tree, std::uint32_t file) {
  const auto files = tree->checkpoint.catalog().files();
  if (file >= files.size() || !files[file].maker || files[file].problem) return nullptr;
  return &files[file];
}

}  // namespace

class Making {
 public:
  Making(std::unique_ptr<std::byte, Free> memory, const FileEntry& file)
      : memory_(std::move(memory)),
        bytes_(memory_.get(), static_cast<std::size_t>(file.length)),
        machine(file.maker->start(bytes_)) {}

  ByteSpan bytes() const { return bytes_; }

 private:
  std::unique_ptr<std::byte, Free> memory_;
  MutableByteSpan bytes_;

 public:
  std::unique_ptr<MakingMachine> machine;  // freed before what it writes to
};

std::uint32_t espalier_made_file(Tree* tree, std::uint32_t from, MadeFile* out) {
  const auto files = tree->checkpoint.catalog().files();
  for (std::uint32_t i = from; i < files.size(); ++i) {
    const FileEntry* const file = made_file(tree, i);
    if (file == nullptr) continue;
    *out = {.number = i,
            .check = file->maker->has_checksum()   ? 2u
                     : file->maker->finds_damage() ? 1u
                                                   : 0u,
            .length = file->length,
            .name = text_of(file->name)};
    return 1;
  }
  return 0;
}

Making* espalier_make(Tree* tree, std::uint32_t number) {
  const FileEntry* const file = made_file(tree, number);
  if (file == nullptr) return no_such("file to make", number), nullptr;
  // Zeros: a maker that skips bytes must not expose old contents.
  const auto length = static_cast<std::size_t>(file->length);
  std::unique_ptr<std::byte, Free> memory(
      static_cast<std::byte*>(std::calloc(length == 0 ? 1 : length, 1)));
  if (!memory) {
    set_failure({ErrorCode::kOutOfMemory,
                 Error::kNoOffset,
                 {},
                 "there is no memory for the " + std::to_string(length) +
                     " bytes that this part of the checkpoint takes once it is unpacked",
                 file->name});
    return nullptr;
  }
  return new Making(std::move(memory), *file);
}

std::uint32_t espalier_make_needs(Making* making, Extent* out) {
  const auto needs = making->machine->needs();
  if (needs.empty()) return 0;
  *out = extent_of(needs.front());
  return 1;
}

Status espalier_make_feed(Making* making, std::uint32_t file, std::uint64_t offset,
                          const std::byte* bytes, std::uint32_t length) {
  return status_of(making->machine->feed({file, offset, length}, {bytes, length}));
}

Status espalier_make_finish(Making* making, Text* out) {
  if (auto made = making->machine->finish(); !made) return status_of(std::move(made));
  *out = text_of(making->bytes());
  return 0;
}

void espalier_make_free(Making* making) { delete making; }

}  // namespace espalier::abi
