// Saves a state as a safetensors file on disk, and gets back what such a file carries; saves one
// tensor as a .npy file, or as plain bytes.
//
//   auto saved = save_safetensors("run.safetensors", state,
//                                 {.unrepresentable = Unrepresentable::kMetadata});
//   auto flat = load_contents("run.safetensors");
//   auto exact = restore_carried(flat->state, flat->metadata);  // nullopt if it carries nothing
#ifndef ESPALIER_SAVE_FOREIGN_H_
#define ESPALIER_SAVE_FOREIGN_H_

#include "espalier/error.h"
#include "espalier/file_path.h"
#include "espalier/save_options.h"
#include "espalier/sink.h"
#include "espalier/unrepresentable.h"
#include "espalier/value.h"

namespace espalier {

struct Contents;  // in checkpoint_file.h

/// Saves `state` as a safetensors file at `path`, completely or not at all, as save() does.
/// `options` apply as there; SaveOptions::unrepresentable selects what happens to values that
/// safetensors cannot hold. Returns the values that were left out; there are none without kDrop.
/// Errors: kUnrepresentable, if values cannot be held and the policy is kError, or for a header
/// beyond the 100,000,000 bytes of the specification; kNameCollision; kInvalidTree; kLimitExceeded
/// for a tree that is too deep; kInvalidArgument for a compression level, before anything is
/// written; those of the tensors' producers; kIoError; kOutOfMemory.
[[nodiscard]] Result<Losses> save_safetensors(const FilePath& path, const Value& state,
                                              const SaveOptions& options = {});

/// The same for the contents of a file, with their metadata; that of `options` does not count.
/// safetensors files are never compressed, so the contents' level does not count either.
[[nodiscard]] Result<Losses> save_safetensors(const FilePath& path, const Contents& contents,
                                              const SaveOptions& options = {});

/// The same to a sink: see save().
[[nodiscard]] Result<Losses> save_safetensors(Sink& sink, const Value& state,
                                              const SaveOptions& options = {});

/// Saves a tensor as a .npy file at `path`, completely or not at all, as save() does. The file is
/// byte for byte that of `numpy.save`: `numpy.load` reads or maps it. `options` apply as for
/// save(); the file has no metadata and no names of axes. Errors: kUnrepresentable if NumPy has no
/// such dtype; kInvalidTree for a placeholder, and for data that do not fit the shape;
/// kInvalidArgument for metadata, a compression level or an ending of another format. All of these
/// before anything is written; then those of the tensor's producer; kIoError; kOutOfMemory.
[[nodiscard]] Result<void> save_npy(const FilePath& path, const Tensor& tensor,
                                    const SaveOptions& options = {});

/// The same with nothing but the bytes of the tensor: packed, in C order, little-endian. Every
/// dtype has such bytes.
[[nodiscard]] Result<void> save_raw(const FilePath& path, const Tensor& tensor,
                                    const SaveOptions& options = {});

}  // namespace espalier

#endif  // ESPALIER_SAVE_FOREIGN_H_
