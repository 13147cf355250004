// Maps files, and ends the program with an error if a mapped file is cut while it is read.
#ifndef ESPALIER_CLI_TERMINAL_MAPPED_FILES_H_
#define ESPALIER_CLI_TERMINAL_MAPPED_FILES_H_

#include <string>

#include "espalier/checkpoint_file.h"
#include "espalier/error.h"

namespace espalier::cli {

/// CheckpointFile::open(). If a page of the mapping is lost from then on, because the file was cut
/// or because its disk fails, the system sends SIGBUS. The program then prints
/// "espalier: FILE: the file changed while it was read ..." and ends with exit code 4. Before, it
/// clears the progress bar and removes the unfinished file of a save. A SIGBUS at an address that
/// is in no mapped file ends the program as before.
[[nodiscard]] Result<CheckpointFile> open_mapped(const std::string& file,
                                                 const OpenFileOptions& options);

/// From now on the loss of a page removes the file `name` in `folder`, a descriptor, before it ends
/// the program. Only one file at a time.
void remove_if_pages_are_lost(int folder, const char* name);
/// Forgets that file, if it is still of this name: it is complete, or removed.
void keep_if_pages_are_lost(const char* name);

}  // namespace espalier::cli

#endif  // ESPALIER_CLI_TERMINAL_MAPPED_FILES_H_
