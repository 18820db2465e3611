#pragma clang diagnostic ignored "-Wconversion"
#pragma clang diagnostic ignored "-Wsign-conversion"
#include <cstdio>
#include "bench/scheduler/simulation.h"
using namespace pen; using namespace pen::simulation;
static float pct(std::vector<StreamOutcome::Delay>& d, double p, float from, float to){
  std::vector<float> v; for(auto&x:d) if(x.arrival>=from&&x.arrival<to) v.push_back(x.delay);
  if(v.empty()) return 0; std::sort(v.begin(),v.end()); return v[std::min(v.size()-1,size_t(p*v.size()))];
}
int main(int argc,char**argv){
  InternetParameters ip; 
  Internet net(ip);
  double rate=argc>1?atof(argv[1]):300; 
  Parameters p; p.limits.workers=argc>2?atoi(argv[2]):500;
  for(Kind k:kKinds){
    Stream singles{"singles",seconds(0),std::uint64_t(rate*600),rate};
    Stream big{"envelope",seconds(60),1,0,100000};
    Simulation s(k,net,{singles,big},p);
    auto o=s.run();
    auto&d=o.streams[0].delays; auto&e=o.streams[1];
    float t90=std::chrono::duration<float>(e.ninety-e.first).count();
    float t50=std::chrono::duration<float>(e.half-e.first).count();
    float t=std::chrono::duration<float>(e.last-e.first).count();
    double held=0,serv=0;int n=0; for(auto&x:o.samples) if(x.at>=60&&x.at<600){held+=x.held;serv+=x.serving;n++;}
    printf("%s: singles before p50 %.2f p99 %.2f | during p50 %.2f p90 %.2f p99 %.2f max %.1f | env 50%% %.0f 90%% %.0f end %.0f | held %.0f serving %.0f | deliveries %lu attempts %lu accepted %lu refused %lu timeouts %lu given %lu/%lu jobs/conn %.2f| end %.0f cpu %.1f own %.3f (%.2f us/job)\n",
      short_name(k).c_str(),pct(d,.5,0,60),pct(d,.99,0,60),pct(d,.5,60,600),pct(d,.9,60,600),pct(d,.99,60,600),pct(d,1,60,600),t50,t90,t,held/n,serv/n,o.counts.deliveries,o.counts.attempts,o.counts.accepted,o.counts.refused,o.counts.timed_out,o.streams[0].given_up,e.given_up,o.jobs_per_connection(),std::chrono::duration<float>(o.end.time_since_epoch()).count(),o.cpu,o.own_cpu,o.own_cpu*1e6/o.counts.deliveries);
    fflush(stdout);
  }
}
