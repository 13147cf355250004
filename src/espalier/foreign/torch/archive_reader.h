// Reads what PyTorch keeps in a zip archive.
#ifndef ESPALIER_FOREIGN_TORCH_ARCHIVE_READER_H_
#define ESPALIER_FOREIGN_TORCH_ARCHIVE_READER_H_

#include <memory>

#include "espalier/foreign/torch/pickle_checkpoint.h"
#include "espalier/foreign/zip/content_reader.h"

namespace espalier {

/// Whether an archive with this directory is one that torch.save() or TorchScript writes: it has an
/// entry data.pkl, in any case, in a folder.
bool is_torch_archive(const ZipDirectory& directory);

/// Reads a file of torch.save() (since 1.6), or a TorchScript archive: data.pkl is the tree, and
/// data/0, data/1, ... are its storages. kForeignInvalid for two data.pkl, names that differ only
/// in case or data.pkl in another case, a storage that is missing or too short, a damaged pickle;
/// also for a pickle without tensors that would call something.
std::unique_ptr<ContentReader> make_torch_reader();

/// The same for an archive that is a part of a checkpoint: `calls`, which must outlive the reader,
/// is told what the pickle would call, and it may hold no tensors.
std::unique_ptr<ContentReader> make_torch_part_reader(TorchCalls& calls);

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_TORCH_ARCHIVE_READER_H_
