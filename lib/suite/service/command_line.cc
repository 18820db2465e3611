#include "lib/suite/service/command_line.h"

#include <getopt.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <iterator>
#include <map>

#include "lib/base/text.h"

namespace pen::service {
namespace {

constexpr std::size_t kWidth = 80;
constexpr std::size_t kMaxFirstColumn = 24;  // a longer name has its text on the next line
constexpr int kFirstLong = 1000;             // getopt's codes for long options begin above all letters

/// Appends the words of `text`, broken at blanks that are not in [brackets]; further lines are indented. A line end in
/// the text stays.
void wrap(std::string& out, std::string_view text, std::size_t column, std::size_t indent) {
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = at;
    for (int depth = 0; end < text.size() && text[end] != '\n'; ++end) {
      if (text[end] == ' ' && depth <= 0) break;
      depth += text[end] == '[' ? 1 : text[end] == ']' ? -1 : 0;
    }
    const std::string_view word = text.substr(at, end - at);
    if (column > indent && column + 1 + word.size() > kWidth) {
      out.append("\n").append(indent, ' ');
      column = indent;
    } else if (column > indent) {
      out += ' ';
      ++column;
    }
    out += word;
    column += word.size();
    if (end < text.size() && text[end] == '\n') {
      out.append("\n").append(indent, ' ');
      column = indent;
    }
    at = end + 1;
  }
  out += '\n';
}

/// One name of a row: "-t TAG" is {"-t", required_argument}.
struct Name {
  std::string name;
  int argument = no_argument;
};
std::vector<Name> names_of(const Option& row) {
  std::vector<Name> names;
  for (std::string_view part : split(row.names, ",")) {
    part = trim(part);
    const std::size_t end = std::min(part.find_first_of(" ["), part.size());
    const int argument = end == part.size() ? no_argument : part[end] == '[' ? optional_argument : required_argument;
    names.push_back({std::string(part.substr(0, end)), argument});
  }
  // "-n, --number COUNT": the value belongs to all of them.
  for (Name& name : names)
    if (name.argument == no_argument) name.argument = names.back().argument;
  return names;
}

/// A table as getopt_long() wants it.
class Known {
 public:
  Known(const std::vector<Option>& rows, bool options_end_at_a_word) : letters_(options_end_at_a_word ? "+:" : ":") {
    for (const Option& row : rows) {
      if (!row.take) continue;
      for (Name& name : names_of(row)) add(std::move(name), row);
    }
    for (const auto& [code, entry] : by_code_)
      if (code >= kFirstLong) long_.push_back({entry.name.name.c_str() + 2, entry.name.argument, nullptr, code});
    long_.push_back({nullptr, 0, nullptr, 0});
  }
  struct Entry {
    Name name;
    const Option* row;
  };
  const char* letters() const { return letters_.c_str(); }
  const option* long_options() const { return long_.data(); }
  /// nullptr: not in the table.
  const Entry* find(int code) const {
    const auto found = by_code_.find(code);
    return found == by_code_.end() ? nullptr : &found->second;
  }

 private:
  void add(Name name, const Option& row) {
    int code = next_long_;
    if (name.name.starts_with("--")) {
      ++next_long_;
    } else {
      code = static_cast<unsigned char>(name.name.at(1));
      letters_ += name.name[1];
      if (name.argument != no_argument) letters_ += ':';
      if (name.argument == optional_argument) letters_ += ':';
    }
    by_code_.emplace(code, Entry{std::move(name), &row});
  }

  std::string letters_;
  int next_long_ = kFirstLong;
  std::map<int, Entry> by_code_;  // its names stay where they are: long_ points at them
  std::vector<option> long_;
};

/// What getopt_long() did not take, by its globals.
std::string complaint(int code, const Known& known, const std::vector<char*>& argv) {
  const Known::Entry* entry = known.find(::optopt);
  if (code == ':') return entry->name.name + " needs a value";
  if (entry != nullptr && ::optopt >= kFirstLong) return entry->name.name + " takes no value";
  const std::string name = ::optopt != 0 ? std::string("-") + static_cast<char>(::optopt)
                                         : std::string(argv[static_cast<std::size_t>(::optind) - 1]);
  return "no such option: " + printable(name);
}

/// Rows in two columns, the second one wrapped.
std::string columns(const std::vector<std::pair<std::string, std::string>>& rows) {
  std::size_t width = 0;
  for (const auto& [name, text] : rows)
    if (name.size() <= kMaxFirstColumn) width = std::max(width, name.size());
  std::string out;
  for (const auto& [name, text] : rows) {
    if (name.empty()) {
      wrap(out, text, 0, 0);
      continue;
    }
    const std::size_t start = 2 + width + 2;
    out.append("  ").append(name);
    if (text.empty()) {
      out += '\n';
      continue;
    }
    if (name.size() > width)
      out.append("\n").append(start, ' ');
    else
      out.append(start - 2 - name.size(), ' ');
    wrap(out, text, start, start);
  }
  return out;
}

}  // namespace

int status_as(std::string_view name, int status) {
  if (status < EX__BASE || status > EX__MAX) return status;
  if (name == "postqueue") return EX_UNAVAILABLE;
  if (name == "postlock") return EX_TEMPFAIL;
  static constexpr std::string_view kOthers[] = {"postalias", "postcat", "postconf", "postdrop",  "postfix",
                                                 "postkick",  "postlog", "postmap",  "postmulti", "postsuper"};
  return std::ranges::find(kOthers, name) == std::end(kOthers) ? status : 1;
}

int own_status(int status) { return status_as(program_invocation_short_name, status); }

int Ending::print() const {
  std::FILE* to = status == EX_OK ? stdout : stderr;
  std::fputs(text.c_str(), to);
  return own_status(std::fflush(to) == 0 ? status : EX_IOERR);
}

std::string CommandLine::help() const {
  std::string out;
  for (const std::string& form : usage) {
    const std::string before = out.empty() ? "usage: " : "       ";
    const std::size_t end = form.find(' ');
    out += before;
    if (end == std::string::npos) {
      out += form + "\n";
      continue;
    }
    const std::size_t indent = before.size() + end + 1;
    out += form.substr(0, end + 1);
    wrap(out, std::string_view(form).substr(end + 1), indent, indent);
  }
  out += '\n';
  if (!about.empty()) wrap(out, about, 0, 0);
  std::vector<std::pair<std::string, std::string>> rows;
  for (const Option& row : options) rows.emplace_back(row.names, row.text);
  rows.emplace_back(help_names, "this text");
  rows.emplace_back("--version", "the version");
  out += columns(rows);
  return out;
}

std::expected<std::vector<std::string>, Ending> CommandLine::read(int argc, const char* const* argv) const {
  std::expected<std::vector<std::string>, Ending> words;
  bool ended = false;
  const auto end = [&](int status, std::string text) {
    words = std::unexpected(Ending{status, std::move(text)});
    ended = true;
    return std::string();
  };
  std::vector<Option> rows = options;
  rows.push_back({help_names, "", [&](const Given&) { return end(EX_OK, help()); }});
  rows.push_back(
      {"--version", "", [&](const Given&) { return end(EX_OK, program + " (Penstock) " PEN_VERSION "\n"); }});
  const Known known(rows, options_end_at_a_word);
  // getopt_long() moves words behind options, so it gets its own array; the strings it does not change.
  std::vector<char*> given;
  for (int i = 0; i < argc; ++i) given.push_back(const_cast<char*>(argv[i]));
  given.push_back(nullptr);
  ::opterr = 0;
  ::optind = 0;  // begins anew
  for (int code = 0;
       (code = ::getopt_long(argc, given.data(), known.letters(), known.long_options(), nullptr)) != -1;) {
    if (code == '?' || code == ':') return std::unexpected(misuse(complaint(code, known, given)));
    const Known::Entry& entry = *known.find(code);
    const std::string wrong = entry.row->take({entry.name.name, ::optarg != nullptr ? ::optarg : ""});
    if (ended) return words;
    if (!wrong.empty()) return std::unexpected(misuse(wrong));
  }
  for (int i = ::optind; i < argc; ++i) words->emplace_back(given[static_cast<std::size_t>(i)]);
  return words;
}

Ending CommandLine::misuse(const std::string& what) const {
  return {EX_USAGE, program + ": " + what + "; see " + program + " --help\n"};
}

Ending CommandLine::incomplete() const { return {EX_USAGE, help()}; }

std::function<std::string(const Given&)> set(bool& flag, bool value) {
  return [&flag, value](const Given&) {
    flag = value;
    return std::string();
  };
}

std::function<std::string(const Given&)> into(std::string& text) {
  return [&text](const Given& given) {
    text = given.value;
    return std::string();
  };
}

std::function<std::string(const Given&)> into(int& number, int least, int most) {
  return [&number, least, most](const Given& given) -> std::string {
    const auto value = parse_unsigned(given.value);
    if (!value || *value < static_cast<unsigned>(least) || *value > static_cast<unsigned>(most))
      return given.name + ": a number from " + std::to_string(least) + " to " + std::to_string(most) +
             " is wanted, not " + printable(given.value);
    number = static_cast<int>(*value);
    return {};
  };
}

std::function<std::string(const Given&)> accepted() {
  return [](const Given&) { return std::string(); };
}

std::function<std::string(const Given&)> refused(std::string why) {
  return [why = std::move(why)](const Given& given) { return given.name + ": " + why; };
}

Option directory_option(std::string& directory) {
  return {"-c DIR", "the directory of main.cf (default: MAIL_CONFIG, else /etc/penstock)", into(directory)};
}

}  // namespace pen::service
