#include "cli/usage/completion_script.h"

#include <string_view>
#include <vector>

#include <fmt/format.h>

namespace espalier::cli {
namespace {

using ValueKind = ValueName::Kind;

std::string joined(const std::vector<std::string>& words, std::string_view separator) {
  return fmt::format("{}", fmt::join(words, separator));
}

std::vector<std::string> names_of(const std::vector<CommandUsage>& commands) {
  std::vector<std::string> names;
  names.reserve(commands.size());
  for (const CommandUsage& command : commands) names.push_back(command.short_name());
  return names;
}

// In single quotes, for all three shells: none of our texts has a backslash.
std::string single_quoted(std::string_view text) {
  std::string result = "'";
  for (const char c : text) result += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return result + "'";
}

template <class Use>
void for_each_option(const CommandUsage& command, Use use) {
  for (const OptionGroup& group : command.groups) {
    for (const OptionUsage& option : group.options) use(option);
  }
}

std::string kind_word(ValueKind kind) {
  switch (kind) {
    case ValueKind::kAny:
      return "any";
    case ValueKind::kWords:
      return "words";
    case ValueKind::kFile:
      return "file";
    case ValueKind::kFolder:
      return "folder";
    case ValueKind::kKeyPath:
      return "path";
    case ValueKind::kCommand:
      return "command";
  }
  return "any";
}

// The words that a value may be, if they are known.
std::vector<std::string> words_of(const ValueName& value, const CommandUsage& program) {
  if (value.kind() == ValueKind::kCommand) return names_of(program.commands);
  return value.kind() == ValueKind::kWords ? value.words() : std::vector<std::string>();
}

// bash: `kind` and `words` of a value.
std::string bash_value(const ValueName& value, const CommandUsage& program) {
  const auto words = words_of(value, program);
  return words.empty() ? "kind=" + kind_word(value.kind())
                       : "kind=words words=" + single_quoted(joined(words, " "));
}

// zsh: a description of what _arguments completes.
std::string zsh_action(const ValueName& value, const CommandUsage& program) {
  switch (value.kind()) {
    case ValueKind::kFile:
      return "_files";
    case ValueKind::kFolder:
      return "_files -/";
    case ValueKind::kKeyPath:
      return "_espalier_paths";
    case ValueKind::kWords:
    case ValueKind::kCommand:
      return "(" + joined(words_of(value, program), " ") + ")";
    case ValueKind::kAny:
      break;
  }
  return " ";
}

// zsh: text within a specification of _arguments.
std::string zsh_text(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == ':' || c == '[' || c == ']' || c == '\\') result += '\\';
    result += c;
  }
  return result;
}

// The specifications of an option, each quoted.
std::string zsh_option(const OptionUsage& option, const CommandUsage& program) {
  std::string specifications;
  for (const std::string& name : option.names) {
    std::string text = "(" + joined(option.names, " ") + ")" + name;
    if (!option.value.name.empty()) text += name.starts_with("--") ? "=" : "+";
    text += "[" + zsh_text(option.description) + "]";
    if (!option.value.name.empty()) {
      text += ":" +
              zsh_text(option.value.kind() == ValueKind::kWords ? "word" : option.value.name) +
              ":" + zsh_action(option.value, program);
    }
    specifications += " \\\n        " + single_quoted(text);
  }
  return specifications;
}

}  // namespace

std::string bash_completion(const CommandUsage& program) {
  std::string options;
  std::string values;
  std::string arguments;
  const auto add = [&](const CommandUsage& command, const std::string& name) {
    std::vector<std::string> names;
    for_each_option(command, [&](const OptionUsage& option) {
      names.insert(names.end(), option.names.begin(), option.names.end());
      if (option.value.name.empty()) return;
      std::vector<std::string> cases;
      for (const std::string& each : option.names) {
        cases.push_back(fmt::format("{},{}", name, each));
      }
      values +=
          fmt::format("    {}) {} ;;\n", joined(cases, " | "), bash_value(option.value, program));
    });
    options +=
        fmt::format("    {}) words='{}' ;;\n", name.empty() ? "''" : name, joined(names, " "));
    for (std::size_t i = 0; i < command.arguments.size(); ++i) {
      const ArgumentUsage& argument = command.arguments[i];
      arguments += fmt::format("    {},{}) {} ;;\n", name,
                               argument.is_repeated ? "*" : std::to_string(i + 1),
                               bash_value(argument.value, program));
    }
  };
  add(program, "");
  for (const CommandUsage& command : program.commands) add(command, command.short_name());
  return fmt::format(R"sh(# Completion of espalier in bash, made by `espalier completion bash`.
# Load it with: eval "$(espalier completion bash)"

_espalier_options() {{
  case $1 in
{}  esac
}}

_espalier_value() {{
  case $1,$2 in
{}    *) return 1 ;;
  esac
}}

_espalier_argument() {{
  case $1,$2 in
{}    *) kind=any ;;
  esac
}}

_espalier() {{
  local cur=${{COMP_WORDS[COMP_CWORD]}} command='' option='' file='' nest='' kind='' words=''
  local i word line number=0
  COMPREPLY=()
  # bash splits --sort=size at the equals sign.
  if [[ $cur == '=' ]]; then
    option=${{COMP_WORDS[COMP_CWORD - 1]}} cur=''
  elif [[ ${{COMP_WORDS[COMP_CWORD - 1]}} == '=' && $COMP_CWORD -gt 1 ]]; then
    option=${{COMP_WORDS[COMP_CWORD - 2]}}
  fi
  for ((i = 1; i < COMP_CWORD; i++)); do
    word=${{COMP_WORDS[i]}}
    if [[ $word == -* ]]; then
      [[ $word == --nest ]] && nest=--nest
      if _espalier_value "$command" "$word"; then
        if [[ ${{COMP_WORDS[i + 1]}} == '=' ]]; then
          i=$((i + 2))
        elif ((i + 1 == COMP_CWORD)); then
          option=$word
        else
          i=$((i + 1))
        fi
      fi
    elif [[ -z $command ]]; then
      command=$word
    else
      number=$((number + 1))
      word=${{word//\\/}} word=${{word/#\~\//$HOME/}}
      [[ -z $file && -f $word ]] && file=$word
    fi
  done
  kind='' words=''
  if [[ -n $option ]]; then
    _espalier_value "$command" "$option" || return
  elif [[ $cur == -* ]]; then
    kind=words
    _espalier_options "$command"
  elif [[ -z $command ]]; then
    kind=words words='{}'
  else
    _espalier_argument "$command" $((number + 1))
  fi
  case $kind in
    words) COMPREPLY=($(compgen -W "$words" -- "$cur")) ;;
    folder)
      compopt -o filenames 2>/dev/null
      while IFS= read -r line; do COMPREPLY+=("$line"); done < <(compgen -d -- "$cur")
      ;;
    path)
      [[ -n $file ]] || return
      while IFS= read -r line; do COMPREPLY+=("$line"); done \
        < <(espalier complete-path $nest -- "$file" "$cur" 2>/dev/null)
      [[ ${{#COMPREPLY[@]}} -eq 1 && ${{COMPREPLY[0]}} == */ ]] && compopt -o nospace 2>/dev/null
      ;;
  esac
}}

# Without a reply, bash completes the names of files.
complete -o default -F _espalier espalier
)sh",
                     options, values, arguments, joined(names_of(program.commands), " "));
}

std::string zsh_completion(const CommandUsage& program) {
  std::string commands;
  std::string cases;
  std::string own;
  for_each_option(program, [&](const OptionUsage& option) { own += zsh_option(option, program); });
  for (const CommandUsage& command : program.commands) {
    const std::string name = command.short_name();
    commands += fmt::format("        {}\n", single_quoted(name + ":" + zsh_text(command.summary)));
    cases += fmt::format("    {})\n      _arguments -s -S", name);
    for_each_option(command,
                    [&](const OptionUsage& option) { cases += zsh_option(option, program); });
    for (std::size_t i = 0; i < command.arguments.size(); ++i) {
      const ArgumentUsage& argument = command.arguments[i];
      cases += " \\\n        " + single_quoted(fmt::format(
                                     "{}:{}:{}", argument.is_repeated ? "*" : std::to_string(i + 1),
                                     zsh_text(argument.name), zsh_action(argument.value, program)));
    }
    cases += "\n      ;;\n";
  }
  return fmt::format(R"sh(#compdef espalier
# Completion of espalier in zsh, made by `espalier completion zsh`.
# Write it to a file _espalier in a folder of $fpath, or load it after compinit with:
#   source <(espalier completion zsh)

# Key paths of the first existing file on the line.
_espalier_paths() {{
  local word file nest
  local -a found
  for word in ${{(Q)words[2,CURRENT-1]}}; do
    word=${{word/#\~\//$HOME/}}
    [[ $word == --nest ]] && nest=--nest
    [[ -z $file && -f $word ]] && file=$word
  done
  [[ -n $file ]] || return 1
  found=(${{(f)"$(command espalier complete-path $nest -- $file ${{(Q)PREFIX}} 2>/dev/null)"}})
  compadd -S '' -- ${{(M)found:#*/}}
  compadd -- ${{found:#*/}}
}}

_espalier() {{
  local curcontext=$curcontext state line
  typeset -A opt_args
  _arguments -C{} \
    '1:command:->command' \
    '*::argument:->argument'
  case $state in
    command)
      local -a commands
      commands=(
{}      )
      _describe -t commands command commands
      ;;
    argument)
      case $words[1] in
{}      esac
      ;;
  esac
}}

if [[ $funcstack[1] == _espalier ]]; then
  _espalier "$@"
else
  compdef _espalier espalier
fi
)sh",
                     own, commands, cases);
}

std::string fish_completion(const CommandUsage& program) {
  std::string lines;
  const auto add_options = [&](const CommandUsage& command, const std::string& condition) {
    for_each_option(command, [&](const OptionUsage& option) {
      std::string line = "complete -c espalier -n " + single_quoted(condition);
      for (const std::string& name : option.names) {
        line += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
      }
      const auto words = words_of(option.value, program);
      if (!words.empty()) {
        line += " -x -a " + single_quoted(joined(words, " "));
      } else if (option.value.kind() == ValueKind::kFolder) {
        line += " -x -a '(__fish_complete_directories)'";
      } else if (option.value.kind() == ValueKind::kKeyPath) {
        line += " -x -a '(__espalier_paths)'";
      } else if (!option.value.name.empty()) {
        line += option.value.kind() == ValueKind::kFile ? " -r -F" : " -x";
      }
      lines += line + " -d " + single_quoted(option.description) + "\n";
    });
  };
  add_options(program, "__fish_use_subcommand");
  for (const CommandUsage& command : program.commands) {
    const std::string name = command.short_name();
    const std::string condition = "__fish_seen_subcommand_from " + name;
    lines += fmt::format("\ncomplete -c espalier -n __fish_use_subcommand -f -a {} -d {}\n", name,
                         single_quoted(command.summary));
    for (std::size_t i = 0; i < command.arguments.size(); ++i) {
      const ValueName& value = command.arguments[i].value;
      const auto words = words_of(value, program);
      if (!words.empty()) {
        lines += fmt::format("complete -c espalier -n {} -f -a {}\n", single_quoted(condition),
                             single_quoted(joined(words, " ")));
      } else if (value.kind() == ValueKind::kKeyPath) {
        lines += fmt::format(
            "complete -c espalier -n {} -f -a '(__espalier_paths)'\n",
            single_quoted(condition + "; and __espalier_wants_path " + std::to_string(i)));
      }
    }
    add_options(command, condition);
  }
  return R"sh(# Completion of espalier in fish, made by `espalier completion fish`.
# Load it with: espalier completion fish | source

# The first existing file on the line.
function __espalier_file
    set -l words (commandline -opc)
    for word in $words[2..-1]
        if test -f $word
            echo $word
            return 0
        end
    end
    return 1
end

# Whether a key path may come next: after some arguments, with a file among them.
function __espalier_wants_path -a arguments
    set -l words (commandline -opc)
    set -l given (string match -v -- '-*' $words[3..-1])
    test (count $given) -ge $arguments
    and __espalier_file >/dev/null
end

# Its key paths.
function __espalier_paths
    set -l nest
    if contains -- --nest (commandline -opc)
        set nest --nest
    end
    set -l file (__espalier_file)
    and command espalier complete-path $nest -- $file (commandline -ct) 2>/dev/null
end

)sh" + lines;
}

}  // namespace espalier::cli
