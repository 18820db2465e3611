#pragma once
/// penstock import [--from DIR] [--to DIR]: the configuration of Postfix, or of Exim as Debian sets it up, taken over
/// into a directory of its own.
///
/// Use:     return ConfigImport({.from = "/etc/postfix", .to = "/etc/penstock"}).run();
/// Does:    copies the files beside main.cf too (tables, certificates, but none that Postfix has made), changes names
///          that lead to them, makes indexed tables from their texts (penmap --all), and says what acts, what is
///          different, and what could not be done. foreign_config.h has the texts.
/// Over:    a directory that holds a main.cf is left alone, but with force: then its own directories, account and log
///          stay set, and its two files are kept as main.cf.before-import and master.cf.before-import.
/// Crash:   main.cf is put in place last, each file in one step.
/// Bounds:  kMostFiles files, kMostBytes bytes.
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "lib/config/config.h"
#include "tools/foreign_config.h"

namespace pen::tools {

class ConfigImport {
 public:
  struct Options {
    std::string from = "/etc/postfix", to;
    bool dry_run = false, json = false, force = false;
  };
  explicit ConfigImport(Options options) : options_(std::move(options)) {}
  /// EX_OK: mail will flow; kLoses: some or all mail will be refused or wait, or nobody can log in; EX_NOINPUT,
  /// EX_CANTCREAT, EX_CONFIG, EX_OSERR.
  int run();
  static constexpr int kLoses = 1;
  static constexpr std::size_t kMostFiles = 10'000;
  static constexpr std::uint64_t kMostBytes = 1ULL << 30;

 private:
  struct File {
    std::string path;  // below the directory
    std::uint64_t size = 0;
    unsigned mode = 0;
    bool link = false;
  };
  Result<void> read_postfix();
  Result<void> read_exim();
  Result<void> take_postsrsd_over();
  Result<void> add_cyrus();
  Result<void> move_cyrus_options(const config::Config& config);
  void hand_over_secrets(const config::Config& config);
  void tell_old_names(const std::string& file, const std::string& text);
  void tell_sockets(const std::string& file, int line, std::string_view text);
  Result<void> find_files();
  Result<void> keep_own_settings();
  Result<void> write();
  Result<void> put(const std::string& name, const std::string& text, unsigned mode);
  Result<void> copy(const File& file);
  int make_tables();
  void judge(const config::Config& config);
  void judge_names(const config::Config& config, const std::set<std::string, std::less<>>& without_effect);
  void judge_tables(const config::Config& config);
  void judge_programs(const config::Config& config);
  Result<void> keep_old_defaults(const std::string& main, const std::string& master);
  Result<void> keep_lenience(const std::string& main, const std::string& master);
  Result<void> keep_name(const std::string& main);
  std::string verdict() const;
  int report();

  Options options_;
  bool exim_ = false;
  std::vector<File> files_;
  ForeignText main_, master_;
  std::string unmoved_main_, unmoved_master_;  // with the names of files as they are before the import
  std::string postfix_queue_;                  // queue_directory of the files; empty: they are not Postfix's
  std::set<std::string> made_sockets_;         // by services of the master.cf, below queue_directory
  std::vector<std::pair<std::string, std::string>> more_;  // further files: name and text
  std::vector<Dropped> dropped_;
  std::vector<std::string> acts_;
  std::vector<std::string> idle_;  // without effect, and nothing to be said: what they ask for is the case anyway
  config::Problems differs_;
  config::Problems cost_mail_;   // of differs_: mail is refused or waits, or nobody can log in
  bool nothing_starts_ = false;  // the files have errors
  bool open_relay_ = false;      // strangers can send to everybody
  std::vector<std::string> cannot_;
};

}  // namespace pen::tools
