#include "cli/terminal/mapped_files.h"

#include <atomic>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <string_view>

#include <signal.h>
#include <unistd.h>

#include "cli/terminal/exit_codes.h"
#include "cli/terminal/progress.h"
#include "cli/terminal/text.h"
#include "espalier/base/escaped.h"
#include "espalier/format/file_set.h"

namespace espalier::cli {
namespace {

// The handler may only read what is in lock-free atomics, and what they point to. So mappings are a
// list that only grows: of two at one address, the later one comes first, and lives.
struct Mapping {
  std::uintptr_t begin;
  std::size_t size;
  std::string message;
  const Mapping* next;
};
std::atomic<const Mapping*> g_mappings = nullptr;
// The message if a page is lost while a file is opened: where it is mapped is not yet known.
std::atomic<const char*> g_opening = nullptr;
std::atomic_flag g_is_ending;

// The unfinished file of a save; none while the folder is -1.
char g_unfinished[64];
std::atomic<int> g_folder = -1;
static_assert(std::atomic<const Mapping*>::is_always_lock_free);
static_assert(std::atomic<int>::is_always_lock_free);

const char* message_for(std::uintptr_t address) {
  for (const Mapping* mapping = g_mappings; mapping != nullptr; mapping = mapping->next) {
    if (address >= mapping->begin && address - mapping->begin < mapping->size) {
      return mapping->message.c_str();
    }
  }
  return g_opening;
}

// Async-signal-safe.
void end_program(int signal, siginfo_t* info, void*) {
  const char* message = message_for(reinterpret_cast<std::uintptr_t>(info->si_addr));
  if (message == nullptr) {
    // Not ours: the instruction faults again when this returns, and ends the program.
    std::signal(signal, SIG_DFL);
    return;
  }
  // Another thread is ending the program.
  while (g_is_ending.test_and_set()) ::pause();
  if (const int folder = g_folder; folder != -1) ::unlinkat(folder, g_unfinished, 0);
  ProgressBar::clear_line();
  [[maybe_unused]] const ssize_t n = ::write(STDERR_FILENO, message, std::strlen(message));
  ::_exit(static_cast<int>(ExitCode::kIo));
}

void install_handler() {
  struct sigaction action = {};
  action.sa_sigaction = end_program;
  action.sa_flags = SA_SIGINFO;
  ::sigemptyset(&action.sa_mask);
  ::sigaction(SIGBUS, &action, nullptr);
}

std::string message_about(const std::string& file) {
  return "espalier: " + escaped(file) +
         ": the file changed while it was read; try --no-mmap, which also tells whether the disk "
         "fails (code file_changed)\n";
}

void remember(const CheckpointFile& file, const std::string& name) {
  const auto files = file.checkpoint().catalog().files();
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::is_directory(name, error)
                                           ? std::filesystem::path(name)
                                           : std::filesystem::path(name).parent_path();
  for (std::uint32_t number = 0; number < files.size(); ++number) {
    const auto bytes = file.source().mapping(number);
    if (!bytes || bytes->empty()) continue;
    const std::string& own_name = files[number].name;
    const std::string path = number == 0 ? name : (folder / own_name).string();
    g_mappings = new Mapping{reinterpret_cast<std::uintptr_t>(bytes->data()), bytes->size(),
                             message_about(path), g_mappings};
  }
}

}  // namespace

Result<CheckpointFile> open_mapped(const std::string& file, const OpenFileOptions& options) {
  // Not std::call_once(), which makes a system call.
  [[maybe_unused]] static const bool is_installed = (install_handler(), true);
  const std::string message = message_about(file);
  g_opening = message.c_str();
  auto opened = CheckpointFile::open(file, options);
  if (opened) remember(*opened, file);
  g_opening = nullptr;
  // The library names its own option for a file that does not fit the address space.
  if (!opened && opened.error().code == ErrorCode::kOutOfMemory) {
    constexpr std::string_view kOption = "Access::kRead";
    std::string& text = opened.error().message;
    const std::size_t at = text.find(kOption);
    if (at != std::string::npos) text.replace(at, kOption.size(), "--no-mmap");
  }
  return opened;
}

void remove_if_pages_are_lost(int folder, const char* name) {
  if (std::strlen(name) >= sizeof g_unfinished) return;
  g_folder = -1;
  std::strcpy(g_unfinished, name);
  g_folder = folder;
}

void keep_if_pages_are_lost(const char* name) {
  if (std::strcmp(g_unfinished, name) == 0) g_folder = -1;
}

}  // namespace espalier::cli
