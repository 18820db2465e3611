/// penconf: shows and changes the settings of an instance. Manual: man/penconf.1.
///
/// The parts: options() reads the command line, show_*() print, change() edits main.cf; one of them runs.
#include <getopt.h>
#include <sysexits.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "lib/base/text.h"
#include "lib/config/config.h"
#include "lib/config/edit.h"
#include "lib/config/expand.h"
#include "lib/map/map.h"

namespace pen::config {
namespace {

constexpr std::size_t kWidth = 80;  // of folded lines

constexpr const char* kHelp =
    "usage: penconf [-c DIR] [-dnfhHjx] [-o name=value] [name ...]\n"
    "       penconf [-c DIR] -e name=value ...   set\n"
    "       penconf [-c DIR] -# name ...         comment out\n"
    "       penconf [-c DIR] -X name ...         remove\n"
    "       penconf -m                           the types of look-up tables\n"
    "       penconf [-c DIR] -M|-F|-P [-fhHjx] [service[/type[/name]] ...]\n"
    "\n"
    "Shows and changes the settings of a Penstock instance.\n"
    "  -c DIR   the directory of main.cf (default: MAIL_CONFIG, else /etc/penstock)\n"
    "  -d       defaults\n"
    "  -n       only what main.cf sets\n"
    "  -e       set in main.cf; comments stay\n"
    "  -#, -X   comment out in main.cf, remove from it\n"
    "  -o       as if main.cf said name=value\n"
    "  -x       with $name expanded\n"
    "  -h, -H   values only, names only\n"
    "  -f       fold long lines\n"
    "  -j       JSON, one object a line\n"
    "  -p       settings of main.cf: as without\n"
    "  -m       the types of look-up tables that there are\n"
    "  -M       services of master.cf;  -F: their columns;  -P: their -o settings\n"
    "  --help, --version\n";

struct Options {
  std::string directory;
  std::vector<Override> overrides;
  std::vector<std::string> names;
  bool defaults = false, set_only = false, expand = false, fold = false, json = false;
  bool hide_names = false, hide_values = false, types = false;
  char mode = 0;    // 0 main.cf, M, F or P
  char change = 0;  // 0 none, e, # or X
};

[[noreturn]] void die(int status, const std::string& text) {
  std::fprintf(stderr, "penconf: %s\n", text.c_str());
  std::exit(status);
}
void warn(const std::string& text) { std::fprintf(stderr, "penconf: warning: %s\n", text.c_str()); }

void print(const std::string& line) {
  if (std::fputs((line + "\n").c_str(), stdout) < 0) die(EX_IOERR, "cannot write the output");
}

std::string json_string(std::string_view in) {
  std::string out = "\"";
  for (const char c : in) {
    if (c == '"' || c == '\\') {
      out += {'\\', c};
    } else if (static_cast<unsigned char>(c) < 0x20) {
      char code[8];
      std::snprintf(code, sizeof code, "\\u%04x",
                    static_cast<unsigned>(static_cast<unsigned char>(c)));
      out += code;
    } else {
      out += c;
    }
  }
  return out + "\"";
}

/// Breaks at blanks; what follows the first line is indented by four, as main.cf continues lines.
std::string folded(std::string_view in) {
  std::string out;
  std::size_t width = 0;
  for (const std::string_view word : split(in, " \t")) {
    if (width != 0 && width + 1 + word.size() > kWidth) {
      out += "\n    ";
      width = 4;
    } else if (width != 0) {
      out += ' ';
      ++width;
    }
    out += word;
    width += word.size();
  }
  return out;
}

void show(const Options& o, const std::string& name, const std::string& value) {
  if (o.json) return print("{" + json_string(name) + ": " + json_string(value) + "}");
  if (o.hide_values) return print(name);
  std::string line = o.hide_names ? value : name + (value.empty() ? " =" : " = " + value);
  print(o.fold ? folded(line) : line);
}

/// The value to show, or nullopt after a warning.
std::optional<std::string> value_of(const Config& config, const Options& o,
                                    const std::string& name) {
  std::optional<std::string> value;
  if (o.defaults) {
    if (const Row* row = find_row(name)) value = std::string(row->default_text);
  } else {
    value = config.written(name);
  }
  if (!value) {
    warn(name + ": unknown setting");
    return std::nullopt;
  }
  const Row* row = find_row(name);
  if (!o.expand || (row && row->type == Type::raw)) return value;
  auto expanded = config.expand(*value);
  if (expanded) return std::move(*expanded);
  warn(name + ": " + expanded.error().context());
  return std::nullopt;
}

int show_main(const Config& config, const Options& o) {
  int status = EX_OK;
  std::vector<std::string> names = o.names;
  if (names.empty()) {
    if (!o.set_only)
      for (const Row& row : rows()) names.emplace_back(row.name);
    if (!o.defaults)
      for (const std::string& name : config.names_set())
        if (o.set_only || !find_row(name)) names.push_back(name);
    std::ranges::sort(names);
  } else if (o.set_only) {
    std::erase_if(names, [&](const std::string& name) { return !config.where(name); });
  }
  for (const std::string& name : names) {
    const auto value = value_of(config, o, name);
    if (value) {
      show(o, name, *value);
    } else {
      status = EX_UNAVAILABLE;
    }
  }
  for (const Problem& p : config.report())
    if (p.severity == Severity::error ||
        (p.severity == Severity::warning && p.text.starts_with("no setting has")))
      warn(p.message());
  return status;
}

struct Selector {
  std::string service, type, name;
};

Selector parse_selector(std::string_view text) {
  Selector s;
  const std::size_t first = text.find('/');
  s.service = text.substr(0, first);
  if (first == std::string_view::npos) return s;
  const std::size_t second = text.find('/', first + 1);
  s.type = text.substr(first + 1, second == std::string_view::npos ? second : second - first - 1);
  if (second != std::string_view::npos) s.name = text.substr(second + 1);
  return s;
}
bool fits(const std::string& wanted, std::string_view is) {
  return wanted.empty() || wanted == "*" || wanted == is;
}

/// "-o name=value", with braces where the value has blanks.
std::string option_text(std::string_view written) {
  if (written.starts_with('{') && written.ends_with('}'))
    written = trim(written.substr(1, written.size() - 2));
  Assignment a;
  if (!parse_assignment(written, a).empty()) return std::string(written);
  const std::string text = a.name + "=" + a.value;
  return text.find_first_of(" \t") == std::string::npos ? text : "{" + text + "}";
}

void show_service(const Config& config, const Options& o, const Service& s) {
  // as Postfix sets them
  static constexpr std::size_t kColumns[] = {0, 11, 17, 25, 33, 41, 49, 57};
  std::string line;
  for (std::size_t i = 0; i < 8; ++i) {
    if (i != 0) line += ' ';
    if (line.size() < kColumns[i]) line.append(kColumns[i] - line.size(), ' ');
    line += s.columns[i];
  }
  std::vector<std::string> words = s.words;
  if (o.expand) {
    const Config own = config.with(s);
    for (std::string& word : words)
      if (const auto expanded = own.expand(word)) word = *expanded;
  }
  for (std::size_t i = 0; i < words.size(); ++i) {
    const bool option = words[i] == "-o" && i + 1 < words.size();
    line += o.fold && option ? "\n    " : " ";
    line += words[i];
    if (option) line += " " + option_text(words[++i]);
  }
  print(o.json ? "{" + json_string(s.label()) + ": " + json_string(line) + "}" : line);
}

void show_columns(const Options& o, const Service& s, const std::string& wanted) {
  static constexpr const char* kColumns[] = {"service", "type",   "private",       "unprivileged",
                                             "chroot",  "wakeup", "process_limit", "command"};
  for (std::size_t i = 0; i < 8; ++i) {
    if (!fits(wanted, kColumns[i])) continue;
    std::string value = s.columns[i];
    if (i == 7)
      for (const std::string& word : s.words) value += " " + word;
    show(o, s.label() + "/" + kColumns[i], value);
  }
}

void show_overrides(const Config& config, const Options& o, const Service& s,
                    const std::string& wanted) {
  std::optional<Config> own;
  if (o.expand) own = config.with(s);
  for (const Assignment& a : s.overrides) {
    if (!fits(wanted, a.name)) continue;
    std::string value = a.value;
    if (own)
      if (const auto expanded = own->expand(value)) value = *expanded;
    show(o, s.label() + "/" + a.name, value);
  }
}

int show_master(const Config& config, const Options& o) {
  int status = EX_OK;
  for (const Problem& p : config.problems())
    if (p.severity == Severity::error) warn(p.message());
  const auto show_fitting = [&](const Selector& wanted) {
    bool any = false;
    for (const Service& s : config.master()) {
      if (!fits(wanted.service, s.name) || !fits(wanted.type, to_word(s.type))) continue;
      any = true;
      if (o.mode == 'M') show_service(config, o, s);
      if (o.mode == 'F') show_columns(o, s, wanted.name);
      if (o.mode == 'P') show_overrides(config, o, s, wanted.name);
    }
    return any;
  };
  if (o.names.empty()) show_fitting({});
  for (const std::string& name : o.names) {
    if (show_fitting(parse_selector(name))) continue;
    warn(name + ": no such service");
    status = EX_UNAVAILABLE;
  }
  return status;
}

std::vector<Edit> edits(const Options& o) {
  std::vector<Edit> all;
  for (const std::string& argument : o.names) {
    Edit edit;
    if (o.change == 'e') {
      Assignment assignment;
      if (const auto error = parse_assignment(argument, assignment); !error.empty())
        die(EX_USAGE, error);
      edit.name = assignment.name;
      edit.value = assignment.value;
    } else {
      if (argument.find('=') != std::string::npos)
        die(EX_USAGE, std::string("-") + o.change + " takes names, not \"" + argument + "\"");
      edit.kind = o.change == 'X' ? Edit::Kind::remove : Edit::Kind::comment_out;
      edit.name = argument;
    }
    all.push_back(std::move(edit));
  }
  return all;
}

int change(const Options& o) {
  if (o.names.empty())
    die(EX_USAGE, std::string("-") + o.change + " needs settings; see penconf --help");
  const std::string path = o.directory + "/main.cf";
  std::ifstream in(path, std::ios::binary);
  if (!in) die(EX_CONFIG, "cannot read " + path);
  const std::string before{std::istreambuf_iterator<char>(in), {}};
  if (in.bad()) die(EX_IOERR, "cannot read " + path);
  const std::vector<Edit> wanted = edits(o);
  const auto after = edit_main_cf(before, wanted);
  if (!after) die(EX_DATAERR, after.error().message());
  // A value that no program could start with is refused here rather than there.
  const Config checked = Config::parse({o.directory, *after, "", {}}, system_surroundings());
  bool refused = false;
  for (const Problem& p : checked.problems()) {
    const bool ours = std::ranges::any_of(wanted, [&](const Edit& e) { return e.name == p.name; });
    if (p.severity != Severity::error || !ours) continue;
    std::fprintf(stderr, "penconf: %s: %s\n", p.name.c_str(), p.text.c_str());
    refused = true;
  }
  if (refused) die(EX_DATAERR, "main.cf is unchanged");
  if (const auto written = replace_file(path, *after); !written)
    die(EX_IOERR, written.error().message());
  return EX_OK;
}

Options options(int argc, char** argv) {
  static constexpr option kLong[] = {
      {"help", no_argument, nullptr, 1}, {"version", no_argument, nullptr, 2}, {}};
  Options o;
  std::string directory;
  int c = 0;
  const auto only = [&](char& slot, int value) {
    if (slot != 0 && slot != value)
      die(EX_USAGE,
          std::string("-") + slot + " and -" + static_cast<char>(value) + " do not go together");
    slot = static_cast<char>(value);
  };
  while ((c = getopt_long(argc, argv, "c:dnefhHjmo:pxMFPX#", kLong, nullptr)) != -1) {
    switch (c) {
      case 1:
        std::fputs(kHelp, stdout);
        std::exit(EX_OK);
      case 2:
        std::puts("penconf (Penstock) " PEN_VERSION);
        std::exit(EX_OK);
      case 'c':
        directory = optarg;
        break;
      case 'd':
        o.defaults = true;
        break;
      case 'n':
        o.set_only = true;
        break;
      case 'f':
        o.fold = true;
        break;
      case 'h':
        o.hide_names = true;
        break;
      case 'H':
        o.hide_values = true;
        break;
      case 'j':
        o.json = true;
        break;
      case 'm':
        o.types = true;
        break;
      case 'p':
        break;  // main.cf, which it is anyway
      case 'x':
        o.expand = true;
        break;
      case 'o': {
        Assignment assignment;
        if (const auto error = parse_assignment(optarg, assignment); !error.empty())
          die(EX_USAGE, "-o: " + error);
        o.overrides.push_back({assignment.name, assignment.value});
        break;
      }
      case 'M':
      case 'F':
      case 'P':
        only(o.mode, c);
        break;
      case 'e':
      case 'X':
      case '#':
        only(o.change, c);
        break;
      default:
        std::fputs("see penconf --help\n", stderr);
        std::exit(EX_USAGE);
    }
  }
  o.names.assign(argv + optind, argv + argc);
  o.directory = config_directory(directory);
  const bool assigns = std::ranges::any_of(
      o.names, [](const std::string& n) { return n.find('=') != std::string::npos; });
  if (o.types && (!o.names.empty() || o.mode != 0 || o.change != 0)) die(EX_USAGE, "-m goes alone");
  if (o.mode != 0 && (o.change != 0 || assigns))
    die(EX_USAGE,
        "master.cf is not edited by penconf yet: change " + o.directory + "/master.cf by hand");
  if (o.change == 0 && assigns) o.change = 'e';  // "penconf name=value" sets, as in Postfix
  if (o.defaults && (o.set_only || o.mode != 0 || o.change != 0))
    die(EX_USAGE, "-d does not go together with -n, -M, -F, -P, -e, -X or -#");
  return o;
}

int show_types() {
  auto types = map::known_types();
  std::ranges::sort(types);
  for (const std::string_view type : types) print(std::string(type));
  return EX_OK;
}

int run(const Options& o) {
  if (o.types) return show_types();
  if (o.change != 0) return change(o);
  if (o.defaults && !o.expand)
    return show_main(Config::parse({o.directory, "", "", {}}, system_surroundings()), o);
  const auto config = inspect(o.directory, o.overrides);
  if (!config)
    die(config.error().sys_errno() != 0 ? EX_CONFIG : EX_CONFIG, config.error().message());
  return o.mode == 0 ? show_main(*config, o) : show_master(*config, o);
}

}  // namespace
}  // namespace pen::config

int main(int argc, char** argv) {
  const int status = pen::config::run(pen::config::options(argc, argv));
  if (std::fflush(stdout) != 0) return EX_IOERR;
  return status;
}
