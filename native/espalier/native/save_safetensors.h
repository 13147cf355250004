// Saves a state as a safetensors file on disk, and gets back what such a file carries:
//
//   auto saved = save_safetensors("run.safetensors", state, Unrepresentable::kMetadata);
//   auto flat = load_contents("run.safetensors");
//   auto exact = restore_carried(flat->state, flat->metadata);  // nullopt if it carries nothing
#ifndef ESPALIER_NATIVE_SAVE_SAFETENSORS_H_
#define ESPALIER_NATIVE_SAVE_SAFETENSORS_H_

#include <filesystem>

#include "espalier/base/error.h"
#include "espalier/foreign/safetensors/carried_tree.h"
#include "espalier/foreign/safetensors/writer.h"
#include "espalier/native/contents.h"
#include "espalier/native/save.h"

namespace espalier {

/// Saves `state` as a safetensors file at `path`, completely or not at all, as save() does.
/// `options` apply as there. `unrepresentable` selects what happens to values that safetensors
/// cannot hold. Returns the values that were left out; there are none without kDrop. Errors: those
/// of plan_safetensors(), or kInvalidArgument for a compression level, before anything is written;
/// those of the tensors' producers; kIoError; kOutOfMemory.
[[nodiscard]] Result<Losses> save_safetensors(
    const std::filesystem::path& path, const Value& state,
    Unrepresentable unrepresentable = Unrepresentable::kError, const SaveOptions& options = {});

/// The same for the contents of a file, with their metadata; that of `options` does not count.
/// safetensors files are never compressed, so the contents' level does not count either.
[[nodiscard]] Result<Losses> save_safetensors(
    const std::filesystem::path& path, const Contents& contents,
    Unrepresentable unrepresentable = Unrepresentable::kError, const SaveOptions& options = {});

/// The same to a sink: see save().
[[nodiscard]] Result<Losses> save_safetensors(
    Sink& sink, const Value& state, Unrepresentable unrepresentable = Unrepresentable::kError,
    const SaveOptions& options = {});

}  // namespace espalier

#endif  // ESPALIER_NATIVE_SAVE_SAFETENSORS_H_
