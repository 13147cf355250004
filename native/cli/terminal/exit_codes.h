// The program's exit codes, and what help says about them.
#ifndef ESPALIER_CLI_TERMINAL_EXIT_CODES_H_
#define ESPALIER_CLI_TERMINAL_EXIT_CODES_H_

#include <array>
#include <cstdint>

namespace espalier::cli {

/// The program's exit codes. The numbers are documented and never change.
enum class ExitCode : std::uint8_t {
  kOk = 0,
  kCheckFailed = 1,  // verify found damage, diff differences, doctor a fault
  kUsage = 2,        // the request is wrong
  kBadInput = 3,     // the input is unreadable, damaged or hostile
  kIo = 4,           // the operating system refused
  kMemory = 5,       // there is not enough memory; says nothing about the input
  kIncomplete = 6,   // nothing is wrong, but files or tensors that belong to the input are missing
};

struct ExitCodeMeaning {
  ExitCode code;
  const char* meaning;
};

inline constexpr std::array kExitCodeMeanings = {
    ExitCodeMeaning{ExitCode::kOk, "ok"},
    ExitCodeMeaning{ExitCode::kCheckFailed, "the check failed (verify, diff, doctor)"},
    ExitCodeMeaning{ExitCode::kUsage, "wrong usage"},
    ExitCodeMeaning{ExitCode::kBadInput, "unreadable or damaged input"},
    ExitCodeMeaning{ExitCode::kIo, "I/O error"},
    ExitCodeMeaning{ExitCode::kMemory, "out of memory"},
    ExitCodeMeaning{ExitCode::kIncomplete,
                    "nothing is wrong, but the input lacks files or tensors (verify, convert)"},
};

}  // namespace espalier::cli

#endif  // ESPALIER_CLI_TERMINAL_EXIT_CODES_H_
