// How a state is saved. save.h saves it.
#ifndef ESPALIER_SAVE_OPTIONS_H_
#define ESPALIER_SAVE_OPTIONS_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "espalier/error.h"
#include "espalier/limits.h"
#include "espalier/unrepresentable.h"
#include "espalier/value.h"

namespace espalier {

class CheckpointFile;
class FileOps;

/// A checkpoint whose files a new file may refer to.
struct SaveBase {
  /// Must outlive the save.
  const CheckpointFile* file = nullptr;
  /// Under which name whoever opens the new file finds the base, in the folder of the new file. Its
  /// further files have the names under which it found them.
  std::string name = {};
};

struct SaveOptions {
  /// The file's metadata: a dict without tensors.
  Value metadata = Value::dict();
  /// Waits until the disk has the file: see SinkOptions::sync.
  bool sync = true;
  /// Whether to replace a file at `path`: see SinkOptions::replace.
  bool replace = true;
  /// For compressing, hashing and writing. The bytes of the file do not depend on it.
  Threads threads = {};
  /// 0 stores tensors as they are; 1 (fast) to 9 (thorough) compresses each MiB of them that gets
  /// smaller. Only Espalier files can be compressed.
  int compression_level = 0;
  /// Whether to refuse a path whose ending names another format, such as .npy: every program that
  /// trusts the name would misread the file. Other endings, and none, fit every format.
  bool check_ending = true;
  /// What save_safetensors() does with values that such a file cannot hold. Espalier files hold
  /// every value.
  Unrepresentable unrepresentable = Unrepresentable::kError;
  /// A bound for the buffers of all threads, in bytes: tensors that are produced or compressed
  /// pass through them. A smaller bound means fewer threads. 0: no bound; each thread then takes
  /// up to 2 MiB, and with compression up to 9 MiB (level 1) to 29 MiB (level 9). The tensors
  /// themselves and the index do not count. kInvalidArgument if it is too small for one thread;
  /// the message says how much that takes.
  std::uint64_t memory_bytes = 0;
  /// Whether tensors that load_lazily(), data_lazily(), contents() or a mapped load() found in an
  /// Espalier file are taken over as they are stored there, with their hashes, unless that file was
  /// written to since it was opened. They are not checked, hashed or compressed again. This process
  /// does not even read them where two files can share storage (Btrfs, XFS) or where the system
  /// copies between files (most local file systems on Linux). Damage in them is taken over too:
  /// the hashes tell whoever reads the new file. A save of Contents takes compressed tensors over,
  /// if it compresses; other saves take over what they would store in the same way. False: tensors
  /// are saved as load() has them in memory, or are read and checked, and damage is an error.
  bool carry = true;
  /// Checkpoints in the folder of the new file. Each chunk of a tensor (1 MiB) that is equal to the
  /// one at the same key path of a base is not written: the file refers to it, and needs the base
  /// for as long as it lives. A tensor that has no counterpart of its dtype and size there is
  /// compared with the one that begins with the same MiB, if there is one. A base of another format
  /// works, too. The state is the same, and has the same digest, as without bases. kInvalidArgument
  /// for a base at `path` itself, and for a name that a file cannot refer to: one of more than 128
  /// bytes, with characters other than letters, digits, '.', '_' and '-' of ASCII, with '.' or '-'
  /// at its beginning or '.' at its end, or of a DOS device.
  std::vector<SaveBase> bases = {};
  /// Whether chunks that differ a little from those of a base are stored as their differences,
  /// where that takes at most 3/4 of the smallest other form. Such a file takes a fifth to a
  /// hundredth of the space if a step of training changed few elements, and also needs the files
  /// that the base's own chunks lie in. At most 16 patches lie one upon the other; then the chunk
  /// is written. Patches are made before the first byte is written and stay in memory until then.
  bool patches = true;
  /// If the file would take more than this part of one without bases, it is written without: it
  /// would not be worth that it depends on others.
  double most_of_full = 0.6;
  /// Called once with the state, before the first byte is written: by save_async() in the
  /// background, with the snapshot. An error ends the save, and the target is unchanged. It gets
  /// the options of the save, whose `cancel` it should heed, and must live until the save is done.
  /// Only saves of Espalier files call it.
  std::function<Result<void>(const Value& state, const SaveOptions& options)> check = {};
  /// Limits that the file's readers are assumed to have.
  Limits limits = {};
  /// Told of the bytes that are written; with bases, first of those that are compared.
  Progress progress = {};
  /// Set it to true, from any thread or a signal handler, to give up the save: it ends with
  /// kCancelled before its next MiB, and the target is unchanged. Once the last byte is written,
  /// the save ends as if it was not set. It must outlive the save.
  const std::atomic<bool>* cancel = nullptr;
  /// The system calls, for tests; they must outlive the save. Null: the real ones.
  FileOps* ops = nullptr;
};

}  // namespace espalier

#endif  // ESPALIER_SAVE_OPTIONS_H_
