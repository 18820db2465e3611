#pragma once
/// Tables that a program may not open itself are opened for it by the process that stays root (docs/root-helper.md).
///
/// Why:     Postfix opens tables before it drops rights, so smtp_sasl_password_maps and the like are readable by root
///          only everywhere; and a table that changes is opened again, when the rights are gone.
///          And of tables that a program may no longer open by name, because the directory they stand in holds the
///          queue too (docs/security.md): a file that takes the place of the one that was there.
/// Use:     borrow_tables(config, "smtp", helper);              // the program, before any thread
///          const LentTables tables(config, owners, "smtp");    // the helper, which has the program's name from master
///          tables.open(path);                                  // in a process that ends then
/// Lent:    regular files that the settings name which the program reads, for reading; a list that is made once, like
///          the program's own. As root where nobody but root can choose what a name leads to (roots_file.h), elsewhere
///          with the program's own account, outside of its rules for files.
/// Keys:    to the key process, and to no other, also the files of certificates and keys that settings name, and those
///          that a table of certificates by server name has as words of its text, if root alone can have written it.
///          Where there is a key process, that table itself is lent to no other either (docs/keys.md).
/// Errors:  of an opening: unreadable with errno. A file that takes longer than ten seconds is ETIMEDOUT.
#include <functional>
#include <string>
#include <vector>

#include "lib/base/fd.h"
#include "lib/base/result.h"
#include "lib/config/config.h"
#include "lib/map/table_file.h"
#include "lib/suite/service/setup.h"

namespace pen::service {

/// Whether a setting that the program reads names a table that is a file.
bool names_tables(const config::Config& config, const std::string& program);
/// helper: the program's socket to it, which stays open.
void borrow_tables(const config::Config& config, const std::string& program, int helper);
/// Calls `told` when this process asks for a table for the first time, in the thread that asks. Call it before another
/// thread is started.
void on_first_borrowed(std::function<void()> told);

class LentTables {
 public:
  LentTables(const config::Config& config, const Owners& owners, std::string program);
  /// May give up this process's rights for good. Errors: EPERM: it is no table of the program's; errno.
  Result<Fd> open(const std::string& path) const;

 private:
  config::Settings settings_;
  Owners owners_;
  std::string program_;
  std::vector<std::string> files_;
  std::vector<map::PlainTable> key_tables_;
};

}  // namespace pen::service
