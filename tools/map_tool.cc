#include "tools/map_tool.h"

#include <getopt.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/text.h"
#include "lib/config/config.h"
#include "lib/map/cdb_file.h"
#include "lib/map/file_map.h"
#include "lib/map/lmdb_file.h"
#include "lib/map/map.h"
#include "tools/as_owner.h"

namespace pen::tools {
namespace {

struct Invocation {
  const char* name = "penmap";
  Source source = Source::table;
  std::string directory;
  std::optional<std::string> query, remove;
  bool incremental = false, list = false, keep_root = false, inherit_mode = true;
  map::BuildOptions build;
  std::vector<std::string> tables;
};

constexpr const char* kHelp =
    "usage: %s [-c DIR] [-finoprw] [-q KEY | -d KEY | -s] [TYPE:]FILE ...\n"
    "  (no -q, -d, -s)  make FILE's table FILE.lmdb (cdb: FILE.cdb) anew from its text, in one "
    "step\n"
    "  -c DIR  the configuration directory (default_database_type)\n"
    "  -q KEY  print the value of KEY; -q - reads keys from standard input\n"
    "  -d KEY  remove KEY; -d - reads keys from standard input\n"
    "  -s      print every key and value\n"
    "  -i      add what standard input says to the table\n"
    "  -r      a later entry replaces an earlier one; -w: and no word about it when it does not\n"
    "  -f      keep upper and lower case of keys apart\n"
    "  -o      stay root; -p: do not take the permissions of FILE\n"
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

std::string all_of_stdin() {
  std::string text, chunk(65536, '\0');
  std::size_t got = 0;
  while ((got = std::fread(chunk.data(), 1, chunk.size(), stdin)) > 0 &&
         text.size() < map::kMaxFile)
    text.append(chunk, 0, got);
  return text;
}

int build(const Invocation& in, const Spec& spec) {
  if (!spec.indexed()) {
    complain(in, "fatal",
             spec.text() + ": tables of this type are not made, the text is read as it is");
    return EX_USAGE;
  }
  struct stat source{};
  const bool from_stdin = in.incremental;
  const std::string owner_of =
      from_stdin && ::access(spec.file.c_str(), F_OK) != 0 ? spec.path() : spec.file;
  const bool there = ::stat(owner_of.c_str(), &source) == 0;
  if (!there && !from_stdin) return failed(in, Error::from_errno(errno, "open " + spec.file));
  map::BuildOptions options = in.build;
  options.start_from_old = in.incremental;
  if (there && in.inherit_mode) options.mode = (source.st_mode & 0666) | 0600;

  std::string text;
  if (from_stdin) {
    text = all_of_stdin();
  } else {
    auto read = map::read_table_file(spec.file);
    if (!read) return failed(in, read.error());
    text = *std::move(read);
  }
  const std::string shown = from_stdin ? "standard input" : spec.file;
  const map::TableText table = in.source == Source::aliases ? map::parse_aliases(text, shown)
                                                            : map::parse_table(text, shown);
  for (const auto& warning : table.warnings) complain(in, "warning", warning);

  std::optional<AsOwner> owner;
  if (there) owner.emplace(source, in.keep_root);
  if (owner && !owner->ok())
    return failed(in, Error::from_errno(errno, "become the owner of " + owner_of));
  auto warnings = spec.cdb() ? map::build_cdb(spec.path(), table.entries, shown, options)
                             : map::build_lmdb(spec.path(), table.entries, shown, options);
  if (!warnings) return failed(in, warnings.error());
  for (const auto& warning : *warnings) complain(in, "warning", warning);
  return EX_OK;
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
    if (print_key) std::printf("%s\t", key.c_str());
    std::printf("%s\n", (*value)->c_str());
    return EX_OK;
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
  std::string line;
  while (std::getline(std::cin, line)) {
    const int one = ask(in, tables, line, true);
    if (one > 1) return one;
    if (one == EX_OK) status = EX_OK;
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
  auto removed = spec.cdb() ? map::remove_from_cdb(spec.path(), keys, fold)
                            : map::remove_from_lmdb(spec.path(), keys, fold);
  if (!removed) return failed(in, removed.error());
  return *removed != 0 ? EX_OK : 1;
}

int list(const Invocation& in, const Spec& spec) {
  const auto print = [](std::string_view key, std::string_view value) {
    std::fwrite(key.data(), 1, key.size(), stdout);
    std::fputc('\t', stdout);
    std::fwrite(value.data(), 1, value.size(), stdout);
    return std::fputc('\n', stdout) != EOF;
  };
  const auto print_all = [&](auto file) {
    if (!file) return failed(in, file.error());
    auto done = (*file)->each(print);
    return done ? EX_OK : failed(in, done.error());
  };
  if (spec.cdb()) return print_all(map::CdbFile::open(spec.path()));
  if (spec.indexed()) return print_all(map::LmdbFile::open(spec.path()));
  if (spec.type == "texthash") {
    auto text = map::read_table_file(spec.file);
    if (!text) return failed(in, text.error());
    for (const auto& e : map::parse_table(*text, spec.file).entries) print(e.key, e.value);
    return EX_OK;
  }
  complain(in, "fatal", spec.text() + ": tables of this type cannot be listed");
  return EX_USAGE;
}

/// nullopt: go on; else the exit status.
std::optional<int> read_arguments(int argc, char** argv, Invocation& in) {
  static const option kLong[] = {
      {"help", no_argument, nullptr, 1}, {"version", no_argument, nullptr, 2}, {}};
  int c = 0;
  while ((c = getopt_long(argc, argv, "c:d:fiNnopq:rsuvw", kLong, nullptr)) != -1) {
    switch (c) {
      case 1:
        std::printf(kHelp, in.name);
        return EX_OK;
      case 2:
        std::printf("%s %s\n", in.name, PEN_VERSION);
        return EX_OK;
      case 'c':
        in.directory = optarg;
        break;
      case 'd':
        in.remove = optarg;
        break;
      case 'f':
        in.build.fold_keys = false;
        break;
      case 'i':
        in.incremental = true;
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
      case 'u':
      case 'v':
        break;
      default:
        std::fprintf(stderr, kHelp, in.name);
        return EX_USAGE;
    }
  }
  in.tables.assign(argv + optind, argv + argc);
  const int modes =
      (in.query ? 1 : 0) + (in.remove ? 1 : 0) + (in.list ? 1 : 0) + (in.incremental ? 1 : 0);
  if (in.tables.empty() || modes > 1 || (in.query && in.query->empty()) ||
      (in.remove && in.remove->empty())) {
    std::fprintf(stderr, kHelp, in.name);
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
  if (in.query) {
    worst = query(in, specs);
  } else {
    bool any_removed = false;
    for (const auto& spec : specs) {
      const int status = in.remove ? remove(in, spec) : in.list ? list(in, spec) : build(in, spec);
      any_removed = any_removed || status == EX_OK;
      if (status > 1 || (status == 1 && !in.remove)) worst = status;
    }
    if (in.remove && !any_removed && worst == EX_OK) worst = 1;
  }
  if (std::fflush(stdout) != 0 && worst == EX_OK) worst = EX_IOERR;
  return worst;
}

}  // namespace pen::tools
