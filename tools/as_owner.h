#pragma once
/// While root works on a file of somebody else's, the process is that somebody: nothing that it makes belongs to root.
///
/// Use:     const AsOwner owner(status_of_the_file);
///          if (!owner.ok()) return fail_errno("become the owner of " + file);
/// Does nothing for anybody but root, and for root's own files. Root again at the end of its life: whoever cannot come
/// back ends with EX_OSERR.
/// Thread:  the only one of the process.
#include <grp.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <unistd.h>

namespace pen::tools {

class AsOwner {
 public:
  /// keep_root: stay what one is.
  explicit AsOwner(const struct stat& file, bool keep_root = false) {
    if (::geteuid() != 0 || file.st_uid == 0 || keep_root) return;
    switched_ =
        ::setgroups(0, nullptr) == 0 && ::setegid(file.st_gid) == 0 && ::seteuid(file.st_uid) == 0;
    ok_ = switched_;
  }
  ~AsOwner() {
    if (switched_ && (::seteuid(0) != 0 || ::setegid(0) != 0)) ::_exit(EX_OSERR);
  }
  AsOwner(const AsOwner&) = delete;
  AsOwner& operator=(const AsOwner&) = delete;
  /// false: errno says why.
  bool ok() const { return ok_; }

 private:
  bool switched_ = false, ok_ = true;
};

}  // namespace pen::tools
