// Servers of the tests listen on the loopback alone, also those that know of no such setting; the
// port that they really have is told on the standard error.
const net = require('net');
const listen = net.Server.prototype.listen;
net.Server.prototype.listen = function (port, ...rest) {
  if (typeof port !== 'number' && typeof port !== 'string') return listen.call(this, port, ...rest);
  this.once('listening', () => console.error(`loopback port ${this.address().port}`));
  const done = rest.filter((one) => typeof one === 'function');
  // Bound at once, as without a host: some ask for the port in the next line.
  return listen.call(this, net._createServerHandle('127.0.0.1', Number(port), 4), ...done);
};
