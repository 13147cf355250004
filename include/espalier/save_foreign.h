// Saves a state as a safetensors file on disk, and gets back what such a file carries; saves one
// tensor as a .npy file, or as plain bytes.
//
//   auto saved = save_safetensors("run.safetensors", state,
//                                 {.unrepresentable = Unrepresentable::kMetadata});
//   auto flat = load_contents("run.safetensors");
//   auto exact = restore_carried(flat->state, flat->metadata);  // nullopt if it carries nothing
#ifndef ESPALIER_SAVE_FOREIGN_H_
#define ESPALIER_SAVE_FOREIGN_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

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

/// How a model is divided into files.
struct ShardOptions {
  /// Bytes of tensors that a file has at most; a larger tensor has a file of its own. By default
  /// what transformers takes.
  std::uint64_t max_bytes = 50'000'000'000;
  /// The index of a model whose files are to be made again, in place of `max_bytes`: each tensor
  /// goes into the file that has its name there, and a new one to those with which it shares the
  /// beginning of its name.
  std::optional<FilePath> like = std::nullopt;
  /// Further members of the new index's `metadata`, a dict of texts, integers and booleans; those
  /// of `like` come first. One file has no index, and leaves them out (SavedModel::left_out).
  Value index_metadata = Value::dict();
};

/// A model that was saved.
struct SavedModel {
  /// The names of the files with tensors, in the folder of the path.
  std::vector<std::string> files;
  /// The name of their index; empty for one file, which needs none.
  std::string index;
  /// Bytes of all of them.
  std::uint64_t bytes = 0;
  Losses left_out;
};

/// Saves `state` as a model in several safetensors files, as transformers and diffusers write and
/// read it: for "model.safetensors", or "model.safetensors.index.json", files such as
/// `model-00001-of-00003.safetensors` and that index. If all fits into one file, it is
/// `model.safetensors` alone. An old model of these names is replaced: at each moment, a reader of
/// the index finds one of the two, whole, also after a kill; then the files that only the old one
/// had are removed. The metadata go into each file. Tied tensors lie in one file, once for each
/// name. `options` apply as for save_safetensors(), but Unrepresentable::kMetadata, which needs one
/// file (kInvalidArgument). Errors: as there; kFolderInUse while another process saves a model to
/// the folder; kForeignInvalid and kInvalidArgument for an index that does not fit;
/// kNotARegularFile for a link in the place of a file.
[[nodiscard]] Result<SavedModel> save_safetensors_model(const FilePath& path, const Value& state,
                                                        const ShardOptions& shards,
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
