#pragma once
/// postsrsd beside Postfix, as settings of ours: its look-ups in the canonical maps make place for srs_domain.
///
/// Use:     auto taken = take_postsrsd(main_cf, {.defaults = …, .conf = …});   // nullopt: main.cf does not ask it
/// Source:  postsrsd 1.x (/etc/default/postsrsd: shell variables; tcp: tables) and 2.x (postsrsd.conf; socketmap:).
/// Errors:  of edit_main_cf(). Pure; any thread.
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"
#include "tools/foreign_config.h"

namespace pen::tools {

struct PostsrsdFiles {
  std::string defaults;  // text of /etc/default/postsrsd; empty: there is none
  std::string conf;      // text of postsrsd.conf; empty: there is none
};

struct TakenPostsrsd {
  std::string main_cf;
  std::string secrets_file;  // where postsrsd has it
  std::vector<Dropped> dropped;
};

/// Takes away what asks postsrsd, and says the same in settings; their secrets are in `secrets_here`.
Result<std::optional<TakenPostsrsd>> take_postsrsd(std::string_view main_cf, const PostsrsdFiles& files,
                                                   const std::string& secrets_here);

}  // namespace pen::tools
