#pragma once
/// What the lists of postscreen_dnsbl_sites say of one client: asked all at once.
///
/// Use:     ListVote vote(server.loop, server.lists, screening, address, until, told);
///          when told is raised: if (vote.complete()) … vote.result()
/// Shared:  a question that another session asks at the same moment is asked once (lib/net/dnsbl/lookup.h).
/// Log:     a line of "dnsblog" for each address that a list answers.
/// Counts:  a list without an answer, or with one that refuses the question, counts nothing.
/// Thread:  the loop's. Destroying it ends what runs. `told` must outlive it.
#include <optional>
#include <string>
#include <vector>

#include "lib/meaning/smtpd/screening.h"
#include "lib/net/dnsbl/lookup.h"

namespace pen::smtpd {

class ListVote {
 public:
  /// until: for each answer. told: raised when the last one is there.
  ListVote(async::Loop& loop, dnsbl::Lookup& lists, const Screening& screening, std::string address, async::Until until,
           async::Cancel& told);
  ListVote(const ListVote&) = delete;
  ListVote& operator=(const ListVote&) = delete;

  bool complete() const { return missing_ == 0; }
  struct Result {
    int score = 0;
    std::optional<seconds> ttl;  // the least of all answers; nullopt: there was none
    std::string blamed;          // domain of the list that weighs most among those that hit
  };
  Result result() const;

 private:
  static async::Task<void> ask(ListVote* vote, std::size_t domain, std::string question, async::Until until);
  void answered(std::size_t domain, const std::string& question, dnsbl::Answer answer);

  dnsbl::Lookup& lists_;
  const Screening& screening_;
  std::string address_;
  async::Cancel& told_;
  std::vector<dnsbl::Answer> answers_;  // of Screening::domains
  std::size_t missing_ = 0;
  async::Gate gate_;  // declared last: what runs ends first
};

}  // namespace pen::smtpd
