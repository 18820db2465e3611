#include "tools/map_tool.h"

#include <fcntl.h>
#include <getopt.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/fd.h"
#include "lib/base/text.h"
#include "lib/config/config.h"
#include "lib/map/cdb_file.h"
#include "lib/map/file_map.h"
#include "lib/map/lmdb_file.h"
#include "lib/map/map.h"
#include "lib/sasl/base64.h"
#include "tools/as_owner.h"
#include "tools/map_message.h"
#include "tools/own_tables.h"
#include "tools/progress_bar.h"

namespace pen::tools {
namespace {

struct Invocation {
  const char* name = "penmap";
  Source source = Source::table;
  std::string directory;
  std::optional<std::string> query, remove;
  MessageKeys message;
  bool incremental = false, list = false, keep_root = false, inherit_mode = true;
  bool json = false, values_are_files = false, all = false;
  map::BuildOptions build;
  std::vector<std::string> tables;
};

constexpr const char* kHelp =
    "usage: %s [-c DIR] [-bfFhijmoprw] [-q KEY | -d KEY | -s] [TYPE:]FILE ...\n"
    "       %s [-c DIR] [-foprw] --all\n"
    "  (no -q, -d, -s)  make FILE's table FILE.lmdb (cdb: FILE.cdb) anew from its text, in one "
    "step\n"
    "  --all   make every table that main.cf and master.cf name, aliases among them\n"
    "  -c DIR  the directory of main.cf (default_database_type, and settings that tables name)\n"
    "  -q KEY  print the value of KEY; -q - reads keys from standard input\n"
    "  -h, -b  with -q -: standard input is a message; keys are its header fields, its body's "
    "lines\n"
    "  -m      with -h, -b: fields of parts and of messages inside are header too\n"
    "  -d KEY  remove KEY; -d - reads keys from standard input\n"
    "  -s      print every key and value\n"
    "  -j      with -q, -s: print JSON, an object {\"KEY\": \"VALUE\"} a line\n"
    "  -i      add what standard input says to the table\n"
    "  -r      a later entry replaces an earlier one\n"
    "  -w      no warning about a second entry with the same key\n"
    "  -f      keep upper and lower case of keys apart\n"
    "  -F      values name files, whose content is stored in base 64; with -q, -s: decode values\n"
    "  -o      stay root\n"
    "  -p      do not take the permissions of FILE\n"
    "  -n, -N, -u, -U, -v  accepted, and change nothing\n"
    "  --help, --version\n";

struct Spec {
  std::string type, file;
  std::string text() const { return type + ":" + file; }
  std::string path() const { return file + (cdb() ? ".cdb" : ".lmdb"); }
  bool cdb() const { return type == "cdb"; }
  bool indexed() const { return type == "lmdb" || type == "hash" || type == "btree" || cdb(); }
};

void complain(const Invocation& in, std::string_view level, std::string_view text) {
  std::fprintf(stderr, "%s: %.*s: %.*s\n", in.name, static_cast<int>(level.size()), level.data(),
               static_cast<int>(text.size()), text.data());
}
int failed(const Invocation& in, const Error& error) {
  complain(in, "fatal", error.message());
  if (error.is_errno(ENOENT)) return EX_NOINPUT;
  if (error.is_errno(EACCES) || error.is_errno(EPERM)) return EX_NOPERM;
  if (error.sys_errno() != 0) return EX_IOERR;
  return EX_DATAERR;
}

Result<Spec> parse_spec(const Invocation& in, const std::string& text) {
  const auto colon = text.find(':');
  if (colon != std::string::npos) return Spec{text.substr(0, colon), text.substr(colon + 1)};
  PEN_TRY_ASSIGN(const auto config, config::inspect(config::config_directory(in.directory)));
  return Spec{config.settings().default_database_type, text};
}

/// How far a large table is: entries are put together, which is one half of the work, and written.
class TableBar {
 public:
  explicit TableBar(const std::string& what)
      : bar_(what, ProgressBar::patient("entry", "entries")) {}
  /// As long as this lives.
  map::Progress progress() {
    return [this](std::size_t done, std::size_t of) {
      bar_.show(done, of, done <= of / 2 ? done : done - of / 2);
    };
  }
  void clear() { bar_.clear(); }

 private:
  ProgressBar bar_;
};

std::string all_of_stdin() {
  std::string text, chunk(65536, '\0');
  std::size_t got = 0;
  while ((got = std::fread(chunk.data(), 1, chunk.size(), stdin)) > 0 &&
         text.size() < map::kMaxFile)
    text.append(chunk, 0, got);
  return text;
}

/// Why there is no file to make.
std::string not_made(const std::string& type) {
  static constexpr std::string_view kTexts[] = {"cidr", "pcre", "regexp", "texthash"};
  const auto known = map::known_types();
  if (std::ranges::find(known, type) == known.end()) return ": there is no such type of table";
  if (std::ranges::find(kTexts, type) != std::end(kTexts))
    return ": tables of this type are not made, the text is read as it is";
  return ": tables of this type are not made, they have no file";
}

/// -F: the files that a value names, an end of line between them, in base 64. Errors: unreadable, too_large, syntax.
Result<std::string> files_in_base64(const std::string& names) {
  std::string content;
  bool first = true;
  for (const std::string& name : split_list(names)) {
    if (!std::exchange(first, false)) content += '\n';
    PEN_TRY_ASSIGN(const std::string one, map::read_table_file(name));
    if (content.size() + one.size() > map::kMaxValue) return fail(map::MapError::too_large, names);
    content += one;
  }
  if (first) return fail(map::MapError::syntax, "no file is named");
  std::string coded = sasl::base64_encode(content);
  if (coded.size() > map::kMaxValue) return fail(map::MapError::too_large, names);
  return coded;
}

int build(const Invocation& in, const Spec& spec, Source kind) {
  if (!spec.indexed()) {
    complain(in, "fatal", spec.text() + not_made(spec.type));
    return EX_USAGE;
  }
  TableBar bar("Making " + spec.path());
  struct stat source{};
  const bool from_stdin = in.incremental;
  // One descriptor for all that is asked of the text: its owner may put another file in its place meanwhile.
  std::string owner_of = spec.file;
  const int flags = O_CLOEXEC | (from_stdin ? O_PATH : O_RDONLY | O_NONBLOCK);
  Fd file(::open(owner_of.c_str(), flags));
  if (!file && from_stdin && errno == ENOENT) {
    owner_of = spec.path();
    file = Fd(::open(owner_of.c_str(), flags));
  }
  const bool there = static_cast<bool>(file);
  if ((!there && !(from_stdin && errno == ENOENT)) || (there && ::fstat(file.get(), &source) != 0))
    return failed(in, Error::from_errno(errno, "open " + owner_of));
  map::BuildOptions options = in.build;
  options.start_from_old = in.incremental;
  if (there && in.inherit_mode) options.mode = (source.st_mode & 0666) | 0600;

  std::string text;
  if (from_stdin) {
    text = all_of_stdin();
  } else {
    auto read = map::read_table_file(file.get(), spec.file);
    if (!read) return failed(in, read.error());
    text = *std::move(read);
  }
  file.reset();
  // What the text names is the business of whoever wrote it: root reads nothing in their place.
  std::optional<AsOwner> owner;
  if (there) owner.emplace(source, in.keep_root);
  if (owner && !owner->ok())
    return failed(in, Error::from_errno(errno, "become the owner of " + owner_of));
  const std::string shown = from_stdin ? "standard input" : spec.file;
  map::TableText table =
      kind == Source::aliases ? map::parse_aliases(text, shown) : map::parse_table(text, shown);
  if (in.values_are_files) {
    std::erase_if(table.entries, [&](map::TableEntry& entry) {
      auto content = files_in_base64(entry.value);
      if (content)
        entry.value = *std::move(content);
      else
        table.warnings.push_back(shown + ", line " + std::to_string(entry.line) + ": " +
                                 content.error().message() + ": skipping this entry");
      return !content;
    });
  }
  for (const auto& warning : table.warnings) complain(in, "warning", warning);

  options.progress = bar.progress();
  auto warnings = spec.cdb() ? map::build_cdb(spec.path(), table.entries, shown, options)
                             : map::build_lmdb(spec.path(), table.entries, shown, options);
  bar.clear();
  if (!warnings) return failed(in, warnings.error());
  for (const auto& warning : *warnings) complain(in, "warning", warning);
  return EX_OK;
}

/// Every table of the configuration from its text; a line for each. The first failure's status; the others are made.
int build_all(const Invocation& in) {
  const auto config = config::inspect(config::config_directory(in.directory));
  if (!config) {
    complain(in, "fatal", config.error().message());
    return EX_CONFIG;
  }
  int worst = EX_OK;
  std::size_t made = 0, failed_ones = 0;
  for (const OwnTable& table : own_tables(*config)) {
    if (!table.has_text() && table.is_made()) {
      std::printf("%s: kept, there is no %s to make it from\n", table.file().c_str(),
                  table.text.c_str());
      continue;
    }
    const Source kind = table.aliases ? Source::aliases : Source::table;
    const int status = build(in, {table.type, table.text}, kind);
    ++(status == EX_OK ? made : failed_ones);
    if (worst == EX_OK) worst = status;
    if (status == EX_OK) std::printf("%s: made\n", table.file().c_str());
    std::fflush(stdout);
  }
  std::printf("%zu made, %zu failed\n", made, failed_ones);
  return worst;
}

/// A value as it is shown. Errors: -F, and it is no base 64.
Result<std::string> shown_value(const Invocation& in, const std::string& key, std::string value) {
  if (!in.values_are_files) return value;
  auto decoded = sasl::base64_decode(value);
  if (!decoded)
    return fail(map::MapError::syntax, "value of " + key + " (-F): neither base 64 nor made by -F");
  return *std::move(decoded);
}

/// Whether standard output still takes it.
bool print(const Invocation& in, std::string_view key, std::string_view value, bool with_key) {
  std::string line;
  if (in.json) {
    const nlohmann::json entry = {{std::string(key), std::string(value)}};
    line = entry.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  } else {
    if (with_key) line.append(key).append("\t");
    line += value;
  }
  line += '\n';
  return std::fwrite(line.data(), 1, line.size(), stdout) == line.size();
}

/// One key asked of every table in turn. 0: found, 1: nowhere, else a failure.
int ask(const Invocation& in, const std::vector<std::shared_ptr<map::Map>>& tables,
        const std::string& key, bool print_key) {
  for (const auto& table : tables) {
    auto value = table->lookup(key);
    if (!value) {
      complain(in, "fatal", std::move(value).error().within(table->name()).message());
      return EX_TEMPFAIL;
    }
    if (!*value) continue;
    auto shown = shown_value(in, key, **std::move(value));
    if (!shown) return failed(in, std::move(shown).error().within(table->name()));
    return print(in, key, *shown, print_key) ? EX_OK : EX_IOERR;
  }
  return 1;
}
int query(const Invocation& in, const std::vector<Spec>& specs) {
  std::vector<std::shared_ptr<map::Map>> tables;
  map::OpenOptions options;
  options.fold_keys = in.build.fold_keys;
  for (const auto& spec : specs) {
    auto opened = map::open(spec.text(), options);
    if (!opened) return failed(in, opened.error());
    tables.push_back(*std::move(opened));
  }
  if (*in.query != "-") return ask(in, tables, *in.query, false);
  int status = 1;
  const auto one = [&](const std::string& key) {
    const int found = ask(in, tables, key, true);
    if (found != 1) status = found;
    return found <= 1;
  };
  if (in.message.header || in.message.body) {
    each_key(std::cin, in.message, one);
    return status;
  }
  for (std::string line; std::getline(std::cin, line) && one(line);) {
  }
  return status;
}

int remove(const Invocation& in, const Spec& spec) {
  if (!spec.indexed()) {
    complain(in, "fatal", spec.text() + ": tables of this type cannot be changed");
    return EX_USAGE;
  }
  std::vector<std::string> keys;
  if (*in.remove == "-") {
    std::string line;
    while (std::getline(std::cin, line)) keys.push_back(line);
  } else {
    keys.push_back(*in.remove);
  }
  struct stat source{};
  if (::stat(spec.path().c_str(), &source) != 0)
    return failed(in, Error::from_errno(errno, "open " + spec.path()));
  const AsOwner owner(source, in.keep_root);
  if (!owner.ok())
    return failed(in, Error::from_errno(errno, "become the owner of " + spec.path()));
  const bool fold = in.build.fold_keys;
  TableBar bar("Making " + spec.path());
  auto removed = spec.cdb() ? map::remove_from_cdb(spec.path(), keys, fold, bar.progress())
                            : map::remove_from_lmdb(spec.path(), keys, fold, bar.progress());
  bar.clear();
  if (!removed) return failed(in, removed.error());
  return *removed != 0 ? EX_OK : 1;
}

int list(const Invocation& in, const Spec& spec) {
  int status = EX_OK;
  const auto show = [&](std::string_view key, std::string_view value) {
    auto shown = shown_value(in, std::string(key), std::string(value));
    if (!shown) {
      status = failed(in, std::move(shown).error().within(spec.text()));
      return true;
    }
    return print(in, key, *shown, true);
  };
  const auto show_all = [&](auto file) {
    if (!file) return failed(in, file.error());
    auto done = (*file)->each(show);
    return done ? status : failed(in, done.error());
  };
  if (spec.cdb()) return show_all(map::CdbFile::open(spec.path()));
  if (spec.indexed()) return show_all(map::LmdbFile::open(spec.path()));
  if (spec.type == "texthash") {
    auto text = map::read_table_file(spec.file);
    if (!text) return failed(in, text.error());
    for (const auto& e : map::parse_table(*text, spec.file).entries)
      if (!show(e.key, e.value)) break;
    return status;
  }
  complain(in, "fatal", spec.text() + ": tables of this type cannot be listed");
  return EX_USAGE;
}

/// nullopt: go on; else the exit status.
std::optional<int> read_arguments(int argc, char** argv, Invocation& in) {
  static const option kLong[] = {{"help", no_argument, nullptr, 1},
                                 {"version", no_argument, nullptr, 2},
                                 {"all", no_argument, nullptr, 3},
                                 {}};
  int c = 0;
  while ((c = getopt_long(argc, argv, "bc:d:FfhijmNnopq:rsUuvw", kLong, nullptr)) != -1) {
    switch (c) {
      case 1:
        std::printf(kHelp, in.name, in.name);
        return EX_OK;
      case 2:
        std::printf("%s %s\n", in.name, PEN_VERSION);
        return EX_OK;
      case 3:
        in.all = true;
        break;
      case 'b':
        in.message.body = true;
        break;
      case 'c':
        in.directory = optarg;
        break;
      case 'd':
        in.remove = optarg;
        break;
      case 'F':
        in.values_are_files = true;
        break;
      case 'f':
        in.build.fold_keys = false;
        break;
      case 'h':
        in.message.header = true;
        break;
      case 'i':
        in.incremental = true;
        break;
      case 'j':
        in.json = true;
        break;
      case 'm':
        in.message.mime = true;
        break;
      case 'o':
        in.keep_root = true;
        break;
      case 'p':
        in.inherit_mode = false;
        break;
      case 'q':
        in.query = optarg;
        break;
      case 'r':
        in.build.duplicates = map::BuildOptions::Duplicates::replace;
        break;
      case 's':
        in.list = true;
        break;
      case 'w':
        in.build.duplicates = map::BuildOptions::Duplicates::ignore;
        break;
      // Postfix's switches for what its formats leave open; here there is one way.
      case 'N':
      case 'n':
      case 'U':
      case 'u':
      case 'v':
        break;
      default:
        std::fprintf(stderr, kHelp, in.name, in.name);
        return EX_USAGE;
    }
  }
  in.tables.assign(argv + optind, argv + argc);
  const int modes =
      (in.query ? 1 : 0) + (in.remove ? 1 : 0) + (in.list ? 1 : 0) + (in.incremental ? 1 : 0);
  if (in.tables.empty() != in.all || modes > (in.all ? 0 : 1) || (in.query && in.query->empty()) ||
      (in.remove && in.remove->empty())) {
    std::fprintf(stderr, kHelp, in.name, in.name);
    return EX_USAGE;
  }
  const bool of_message = in.message.header || in.message.body;
  if (of_message && (!in.query || *in.query != "-")) {
    complain(in, "fatal", "-h and -b take the keys from a message on standard input: with -q -");
    return EX_USAGE;
  }
  if (in.message.mime && !of_message) {
    complain(in, "fatal", "-m says what -h and -b take from a message: with one of them");
    return EX_USAGE;
  }
  if (in.json && !in.query && !in.list) {
    complain(in, "fatal", "-j is for what is printed: with -q or -s");
    return EX_USAGE;
  }
  return std::nullopt;
}

}  // namespace

int map_tool(int argc, char** argv, const char* name, Source source) {
  Invocation in;
  in.name = name;
  in.source = source;
  if (const auto status = read_arguments(argc, argv, in)) return *status;
  std::vector<Spec> specs;
  for (const auto& text : in.tables) {
    auto spec = parse_spec(in, text);
    if (!spec) {  // only the configuration can be unreadable here
      complain(in, "fatal", spec.error().message());
      return EX_CONFIG;
    }
    specs.push_back(*std::move(spec));
  }
  int worst = EX_OK;
  if (in.all) {
    worst = build_all(in);
  } else if (in.query) {
    worst = query(in, specs);
  } else {
    bool any_removed = false;
    for (const auto& spec : specs) {
      const int status = in.remove ? remove(in, spec)
                         : in.list ? list(in, spec)
                                   : build(in, spec, in.source);
      any_removed = any_removed || status == EX_OK;
      if (status > 1 || (status == 1 && !in.remove)) worst = status;
    }
    if (in.remove && !any_removed && worst == EX_OK) worst = 1;
  }
  if (std::fflush(stdout) != 0 && worst == EX_OK) worst = EX_IOERR;
  return worst;
}

}  // namespace pen::tools
