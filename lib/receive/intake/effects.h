#pragma once
/// What checks ask for besides accepting or refusing a message: actions of access(5) and header_checks(5).
///
/// Use:     message.effects().merge(verdict.effects);   // commit() of Message (intake.h) carries them out
/// Rules:   hold and discard stay once they are set; of filters and of redirections the last one counts; copies and
///          fields add up, each once (a list is evaluated for every recipient). A redirection overrides a filter, and
///          discard overrides everything.
/// Source:  Postfix access(5), header_checks(5), cleanup(8).
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace pen::intake {

struct Effects {
  bool hold = false;
  bool discard = false;            // accepted and then dropped
  bool discard_by_filter = false;  // a filter said so, not a list: further recipients are checked all the same
  std::string filter;              // "transport:nexthop" in place of content_filter; empty: that applies
  std::string redirect;            // an address that replaces all recipients; empty: none
  std::vector<std::string> bcc;
  std::vector<std::string> prepend;  // whole header fields without CRLF, for the top of the header

  bool none() const {
    return !hold && !discard && filter.empty() && redirect.empty() && bcc.empty() && prepend.empty();
  }
  void merge(Effects later) {
    hold = hold || later.hold;
    discard = discard || later.discard;
    if (!later.filter.empty()) filter = std::move(later.filter);
    if (!later.redirect.empty()) redirect = std::move(later.redirect);
    add(bcc, std::move(later.bcc));
    add(prepend, std::move(later.prepend));
  }

 private:
  static void add(std::vector<std::string>& all, std::vector<std::string> more) {
    for (auto& one : more)
      if (std::ranges::find(all, one) == all.end()) all.push_back(std::move(one));
  }
};

}  // namespace pen::intake
