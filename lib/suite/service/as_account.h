#pragma once
/// While root works where somebody else may change the names, the process is that somebody: what it finds there can
/// lead it to nothing that the other could not reach, and what it makes belongs to the other. The process could come
/// back, so what it calls must not be something that the other's bytes could take over: that is for in_account().
///
/// Use:     const AsAccount owner(account);
///          if (!owner.ok()) return fail_errno("become the mail owner");
/// Groups:  the account's supplementary ones, as drop_privileges() gives them, and those that are named.
/// Does nothing for anybody but root, and where the account is root. Root again at the end of its life: a process that
/// cannot come back ends with EX_OSERR.
/// Thread:  the only one of the process.
#include <sys/types.h>

#include <functional>
#include <span>
#include <vector>

#include "lib/base/result.h"
#include "lib/suite/service/setup.h"

namespace pen::service {

class AsAccount {
 public:
  explicit AsAccount(const Account& account, std::span<const gid_t> more = {});
  ~AsAccount();
  AsAccount(const AsAccount&) = delete;
  AsAccount& operator=(const AsAccount&) = delete;
  /// false: errno says why, and the process is root still.
  bool ok() const { return ok_; }

 private:
  static bool add(std::span<const gid_t> more);
  void come_back();

  std::vector<gid_t> groups_;
  gid_t group_ = 0;
  bool changed_ = false, ok_ = true;
};

/// For readers of more than bytes (of a database, where pages name other pages): calls `work` in a process of its
/// own, which is that account for good. What it has open, and what `work` captures, is a copy; files stay open. Where
/// AsAccount does nothing, `work` is called here. Errors: those of `work` with their text and errno alone; EPERM, the
/// process could not become the account; ECHILD, it was killed.
Result<void> in_account(const Account& account, const std::function<Result<void>()>& work);

}  // namespace pen::service
